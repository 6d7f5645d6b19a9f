//! Network isolation of agents under test.

use kit::model::{Model, Script};
use kit::offline::offline;
use std::io::ErrorKind;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;

#[test]
fn only_the_loopback_network_is_reachable() {
    offline(async {
        let outside = timeout(Duration::from_secs(2), TcpStream::connect("1.1.1.1:443")).await;
        let error =
            outside.expect("the connection fails immediately").expect_err("the network is unreachable");
        assert_eq!(error.kind(), ErrorKind::NetworkUnreachable);
        let model = Model::start(Script::new()).await;
        let address = model.url().replace("http://", "");
        TcpStream::connect(address).await.expect("the loopback is reachable");
    });
}
