//! The real template, translated where the emulator needs it, and its deployment.

use crate::Places;
use crate::account::{Account, STACK};
use anyhow::{Context, bail};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A template with everything that it refers to.
#[derive(Debug)]
pub struct Stack {
    template: Value,
    file: PathBuf,
    parameters: Vec<String>,
}

impl Stack {
    /// Reads `template.yaml` and puts what was built where `sam build` would have put it. `parameters` are those that are
    /// not about the emulator itself.
    pub fn prepare(places: &Places, parameters: Vec<String>) -> anyhow::Result<Self> {
        let text = fs::read_to_string(places.root.join("template.yaml"))?;
        let mut template = kit::template::parse(&text).map_err(anyhow::Error::msg)?;
        let resources = template["Resources"].as_object_mut().context("a template has resources")?;
        let mut routes = Vec::new();
        for (name, resource) in resources.iter_mut() {
            if resource["Type"] != "AWS::Serverless::Function" {
                continue;
            }
            let binary = resource["Metadata"]["BuildProperties"]["Binary"].as_str();
            let binary = binary.with_context(|| format!("{name} does not say which binary it is"))?;
            let code = places.work.join("build").join(name);
            place(&places.binaries.join(binary), &code.join("bootstrap"))?;
            resource["Properties"]["CodeUri"] = json!(code);
            routes.extend(take_routes(name, &mut resource["Properties"]["Events"]));
        }
        resources.extend(routes);
        Ok(Self { template, file: places.work.join("template.json"), parameters })
    }

    /// Takes a permission away from a function.
    pub fn without(mut self, function: &str, action: &str) -> anyhow::Result<Self> {
        let statements = &mut self.template["Resources"][function]["Properties"]["Policies"][0]["Statement"];
        let mut taken = false;
        for statement in statements.as_array_mut().into_iter().flatten() {
            if let Some(actions) = statement["Action"].as_array_mut() {
                let before = actions.len();
                actions.retain(|allowed| allowed != action);
                taken |= actions.len() < before;
            }
        }
        if taken { Ok(self) } else { bail!("{function} has no permission for {action}") }
    }

    /// Deploys it, or brings what is deployed up to it.
    pub async fn deploy(&self, account: &Account) -> anyhow::Result<()> {
        fs::write(&self.file, serde_json::to_vec_pretty(&self.template)?)?;
        let file = self.file.to_str().context("the path is not UTF-8")?;
        let endpoint = format!("WsEndpoint={}", account.apis());
        let options = ["--resolve-s3", "--capabilities", "CAPABILITY_IAM", "--no-confirm-changeset"];
        let mut arguments =
            vec!["deploy", "--template-file", file, "--stack-name", STACK, "--no-progressbar"];
        arguments.extend(options);
        // The functions were built for this machine.
        arguments.extend(["--parameter-overrides", "Stage=dev", "Arch=x86_64", &endpoint]);
        arguments.extend(self.parameters.iter().map(String::as_str));
        account.sam(&arguments).await?;
        Ok(())
    }
}

/// What is not needed to run is left out: it would be packed and unpacked for each function.
fn place(binary: &Path, bootstrap: &Path) -> anyhow::Result<()> {
    let newer =
        |a: &Path, b: &Path| Some(a.metadata().ok()?.modified().ok()? > b.metadata().ok()?.modified().ok()?);
    if newer(bootstrap, binary) == Some(true) {
        return Ok(());
    }
    fs::create_dir_all(bootstrap.parent().context("a bootstrap has a folder")?)?;
    let stripped = Command::new("strip").arg("-o").arg(bootstrap).arg(binary).status();
    if !stripped.is_ok_and(|status| status.success()) {
        fs::copy(binary, bootstrap).with_context(|| format!("{} is not built", binary.display()))?;
    }
    Ok(())
}

/// The one translation: the emulator does not look into the OpenAPI document that SAM makes of `HttpApi` events, so each
/// becomes a route and an integration, which is what API Gateway makes of the document.
fn take_routes(function: &str, events: &mut Value) -> Vec<(String, Value)> {
    let Some(events) = events.as_object_mut() else { return Vec::new() };
    let names: Vec<String> =
        events.iter().filter(|(_, event)| event["Type"] == "HttpApi").map(|(name, _)| name.clone()).collect();
    let mut resources = Vec::new();
    for name in names {
        let Some(event) = events.remove(&name) else { continue };
        let (method, path) = (&event["Properties"]["Method"], &event["Properties"]["Path"]);
        let key = format!("{} {}", method.as_str().unwrap_or_default(), path.as_str().unwrap_or_default());
        let (integration, api) =
            (format!("{function}{name}Integration"), event["Properties"]["ApiId"].clone());
        let target = json!({"Fn::Sub": format!("integrations/${{{integration}}}")});
        resources.push((
            format!("{function}{name}Route"),
            json!({"Type": "AWS::ApiGatewayV2::Route",
                   "Properties": {"ApiId": api, "RouteKey": key, "Target": target}}),
        ));
        resources.push((
            integration,
            json!({"Type": "AWS::ApiGatewayV2::Integration",
                   "Properties": {"ApiId": api, "IntegrationType": "AWS_PROXY", "PayloadFormatVersion": "2.0",
                                  "IntegrationUri": {"Fn::GetAtt": [function, "Arn"]}}}),
        ));
        resources.push((
            format!("{function}{name}Permission"),
            json!({"Type": "AWS::Lambda::Permission",
                   "Properties": {"Action": "lambda:InvokeFunction", "FunctionName": {"Ref": function},
                                  "Principal": "apigateway.amazonaws.com"}}),
        ));
    }
    resources
}
