"""Counts the resources of a SAM template as CloudFormation gets them, after SAM's transform.

A stack may have 500. Fails above LIMIT, so that there is time to split the stack.
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
# SAM does not package code here; a place in a bucket is what it expects.
template["Globals"]["Function"]["CodeUri"] = "s3://bucket/key"

session = boto3.Session(region_name="us-east-1", aws_access_key_id="none", aws_secret_access_key="none")
translator = Translator({}, Parser(), boto_session=session)
translated = translator.translate(template, parameter_values={}, feature_toggle=None)
count = len(translated["Resources"])

# A function of an HTTP route is itself, its role and its log group.
print(
    f"{path}: {len(functions)} functions, {count} of {LIMIT} resources after SAM's transform; "
    f"room for {(LIMIT - count) // 3} more HTTP functions"
)
if count > LIMIT:
    sys.exit(f"{count} resources are more than {LIMIT}: split the stack while there is room to do so")
