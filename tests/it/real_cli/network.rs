//! What an agent under test can reach: the test, and nothing else.

use kit::model::{Model, Script};
use kit::offline::offline;
use std::io::ErrorKind;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;

#[test]
fn nothing_but_the_loopback_can_be_reached() {
    offline(async {
        let outside = timeout(Duration::from_secs(2), TcpStream::connect("1.1.1.1:443")).await;
        let refused = outside.expect("it fails at once").expect_err("there is no way out");
        assert_eq!(refused.kind(), ErrorKind::NetworkUnreachable);
        let model = Model::start(Script::new()).await;
        let address = model.url().replace("http://", "");
        TcpStream::connect(address).await.expect("the test itself is within reach");
    });
}
