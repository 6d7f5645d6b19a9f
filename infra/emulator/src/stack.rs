//! Deploys the real template, translated where the emulator requires it.

use crate::Paths;
use crate::account::{Account, STACK};
use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const BINARY: &str = "sunaba-functions";

#[derive(Debug)]
pub struct Stack {
    template: Value,
    file: PathBuf,
    parameters: Vec<String>,
}

impl Stack {
    /// Reads `template.yaml` and packs the program of the functions, as `sam build` would. `parameters` are added to those
    /// for the emulator.
    pub fn prepare(paths: &Paths, parameters: Vec<String>) -> anyhow::Result<Self> {
        let text = fs::read_to_string(paths.root.join("template.yaml"))?;
        let mut template = kit::template::parse(&text).map_err(anyhow::Error::msg)?;
        template["Globals"]["Function"]["CodeUri"] = json!(pack(paths)?);
        let resources = template["Resources"].as_object_mut().context("a template has resources")?;
        for resource in resources.values_mut().filter(|resource| is_function(resource)) {
            let binary = &resource["Metadata"]["BuildProperties"]["Binary"];
            ensure!(binary == BINARY, "a function is built from {binary}");
        }
        let routes = take_routes(&mut resources["HttpApi"]["Properties"])?;
        resources.extend(routes);
        Ok(Self { template, file: paths.work.join("template.json"), parameters })
    }

    /// Removes a permission from a function.
    pub fn without(mut self, function: &str, action: &str) -> anyhow::Result<Self> {
        let statements = &mut self.template["Resources"][function]["Properties"]["Policies"][0]["Statement"];
        let mut removed = false;
        for statement in statements.as_array_mut().into_iter().flatten() {
            if let Some(actions) = statement["Action"].as_array_mut() {
                let before = actions.len();
                actions.retain(|allowed| allowed != action);
                removed |= actions.len() < before;
            }
        }
        if removed { Ok(self) } else { bail!("{function} has no permission for {action}") }
    }

    /// Creates or updates the stack.
    pub async fn deploy(&self, account: &Account) -> anyhow::Result<()> {
        fs::write(&self.file, serde_json::to_vec_pretty(&self.template)?)?;
        let file = self.file.to_str().context("the path is not UTF-8")?;
        let endpoint = format!("WsEndpoint={}", account.apis());
        let options = ["--resolve-s3", "--capabilities", "CAPABILITY_IAM", "--no-confirm-changeset"];
        let mut arguments =
            vec!["deploy", "--template-file", file, "--stack-name", STACK, "--no-progressbar"];
        arguments.extend(options);
        // The functions are built for this machine.
        arguments.extend(["--parameter-overrides", "Stage=dev", "Arch=x86_64", &endpoint]);
        arguments.extend(self.parameters.iter().map(String::as_str));
        account.sam(&arguments).await?;
        Ok(())
    }
}

/// Packs the program of the functions. From a folder, SAM would pack it once for each function.
fn pack(paths: &Paths) -> anyhow::Result<PathBuf> {
    let (binary, folder) = (paths.binaries.join(BINARY), paths.work.join("build"));
    let (bootstrap, zip) = (folder.join("bootstrap"), folder.join("functions.zip"));
    let modified = |path: &Path| path.metadata().and_then(|file| file.modified()).ok();
    let built = modified(&binary).with_context(|| format!("{} is not built", binary.display()))?;
    if modified(&zip).is_some_and(|packed| packed > built) {
        return Ok(zip);
    }
    fs::create_dir_all(&folder)?;
    // Stripped, because it is unpacked for each function.
    let stripped = Command::new("strip").arg("-o").arg(&bootstrap).arg(&binary).status();
    if !stripped.is_ok_and(|status| status.success()) {
        fs::copy(&binary, &bootstrap)?;
    }
    let mut python = Command::new(paths.tools.join("sam/bin/python3"));
    let packed = python.args(["-m", "zipfile", "-c"]).arg(&zip).arg(&bootstrap).status()?;
    ensure!(packed.success(), "the functions cannot be packed");
    Ok(zip)
}

fn is_function(resource: &Value) -> bool {
    resource["Type"] == "AWS::Serverless::Function"
}

/// The emulator ignores the OpenAPI document of an HTTP API. Each operation becomes a route and an integration, as API
/// Gateway does with the document.
fn take_routes(api: &mut Value) -> anyhow::Result<Vec<(String, Value)>> {
    let document = api.as_object_mut().and_then(|api| api.remove("DefinitionBody"));
    let document = document.context("the HTTP API has no document")?;
    let paths = document["paths"].as_object().context("the HTTP API has no paths")?;
    let mut resources = Vec::new();
    for (path, item) in paths {
        let operations = item.as_object().into_iter().flatten();
        for (method, operation) in operations.filter(|(method, _)| *method != "parameters") {
            let integration = &operation["x-amazon-apigateway-integration"];
            let name = format!("HttpApi{}", resources.len());
            resources.push((
                format!("{name}Route"),
                json!({"Type": "AWS::ApiGatewayV2::Route",
                       "Properties": {"ApiId": {"Ref": "HttpApi"},
                                      "RouteKey": format!("{} {path}", method.to_uppercase()),
                                      "Target": {"Fn::Sub": format!("integrations/${{{name}Integration}}")}}}),
            ));
            resources.push((
                format!("{name}Integration"),
                json!({"Type": "AWS::ApiGatewayV2::Integration",
                       "Properties": {"ApiId": {"Ref": "HttpApi"}, "IntegrationType": "AWS_PROXY",
                                      "PayloadFormatVersion": integration["payloadFormatVersion"],
                                      "CredentialsArn": integration["credentials"],
                                      "IntegrationUri": integration["uri"]}}),
            ));
        }
    }
    ensure!(!resources.is_empty(), "the HTTP API has no routes");
    Ok(resources)
}
