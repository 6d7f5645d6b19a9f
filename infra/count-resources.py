"""Counts the CloudFormation resources of a SAM template after SAM's transform.

CloudFormation allows 500 per stack. Fails above LIMIT, which leaves time to split the stack.
"""

import sys

import boto3
from samcli.yamlhelper import yaml_parse
from samtranslator.parser.parser import Parser
from samtranslator.translator.translator import Translator

LIMIT = 450

path = sys.argv[1]
with open(path, encoding="utf-8") as file:
    template = yaml_parse(file.read())
functions = [r for r in template["Resources"].values() if r["Type"] == "AWS::Serverless::Function"]
# The transform expects packaged code in a bucket.
template["Globals"]["Function"]["CodeUri"] = "s3://bucket/key"

session = boto3.Session(region_name="us-east-1", aws_access_key_id="none", aws_secret_access_key="none")
translator = Translator({}, Parser(), boto_session=session)
translated = translator.translate(template, parameter_values={}, feature_toggle=None)
count = len(translated["Resources"])

# An HTTP function has three resources: function, role and log group.
print(
    f"{path}: {len(functions)} functions, {count} of {LIMIT} resources after SAM's transform; "
    f"room for {(LIMIT - count) // 3} more HTTP functions"
)
if count > LIMIT:
    sys.exit(f"{count} resources exceed the limit of {LIMIT}: split the stack")
