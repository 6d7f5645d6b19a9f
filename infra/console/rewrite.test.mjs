// Tests of CloudFront's routing: the origin of a request, and how the origin's function changes it.
// Run with: node --test infra/console/
//
// The functions are read from ../console.yaml, because CloudFormation accepts them only inline. They run in an empty
// context without URL and require, as at CloudFront. This does not test the syntax that CloudFront's engine accepts. The
// closest available engine is njs (Debian package njs): NJS=/usr/bin/njs node --test infra/console/

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import vm from 'node:vm';

const lines = readFileSync(new URL('../console.yaml', import.meta.url), 'utf8').split('\n');

// Sockets

test('socket for all events goes to the root of the stage', () => {
  check('/api/v1/ws/events', { origin: 'socket', uri: '/live', query: {} });
  check('/api/v1/ws/events/', { origin: 'socket', uri: '/live', query: {} });
  check('/api/v1/ws/events?token=t&event_types=agent.message&entity_ids=a,b&batch=true', {
    origin: 'socket',
    uri: '/live',
    query: { token: 't', event_types: 'agent.message', entity_ids: 'a,b', batch: 'true' },
  });
});

test('sandbox socket passes its sandbox id in the query', () => {
  const query = { sandbox_id: 'demo-1.2_x' };
  for (const path of ['/api/v1/sandbox/demo-1.2_x/ws', '/api/v1/sandboxes/demo-1.2_x/ws']) {
    check(path, { origin: 'socket', uri: '/live', query });
  }
  check('/api/v1/sandbox/%64emo-1.2_x/ws', { origin: 'socket', uri: '/live', query });
});

test('id in the path replaces the id in the query', () => {
  const query = { token: 'a%2Bb', event_types: ['x', 'y'], sandbox_id: 'demo' };
  for (const other of ['sandbox_id=other', 'sandbox_id=other&sandbox_id=another', 'sandbox%5Fid=other']) {
    check(`/api/v1/sandbox/demo/ws?${other}&token=a%2Bb&event_types=x&event_types=y`, {
      origin: 'socket',
      uri: '/live',
      query,
    });
  }
});

test('malformed percent-encoding in the query is kept', () => {
  check('/api/v1/sandbox/demo/ws?%zz=1', {
    origin: 'socket',
    uri: '/live',
    query: { '%zz': '1', sandbox_id: 'demo' },
  });
});

test('unknown socket path is not found', () => {
  for (const path of [
    '/api/v1/ws/other',
    '/api/v1/ws/',
    '/api/v1/sandbox/a/b/ws',
    '/api/v1/sandbox/a%2Cb/ws',
    '/api/v1/sandbox/a%2Fb/ws',
    '/api/v1/sandbox/a%26token=t/ws',
    '/api/v1/sandbox/%zz/ws',
    '/api/v1/sandbox/.hidden/ws',
    `/api/v1/sandbox/${'a'.repeat(101)}/ws`,
  ]) {
    const { result } = send(path);
    assert.equal(result.statusCode, 404, path);
    assert.equal(result.headers['content-type'].value, 'application/problem+json', path);
    const problem = JSON.parse(result.body.data);
    assert.deepEqual([problem.status, problem.code, problem.request_id], [404, 'route_not_found', 'request-1'], path);
  }
});

// The API

test('API paths and queries are unchanged', () => {
  for (const path of [
    '/api/v1/sandboxes',
    '/api/v1/sandboxes/demo/events?after_seq=3&order=oldest&entity_ids=kept',
    '/api/v1/sandbox/demo/message',
    '/api/v1/sandboxes/ws',
    '/api/v1/sandboxes/demo/events/7/body',
    '/api/v1/nothing.js',
  ]) {
    const [uri, text] = path.split('?');
    check(path, { origin: 'api', uri, query: plain(parse(text)) });
  }
});

test('same-origin Origin header is removed, others are kept', () => {
  for (const path of ['/api/v1/sandboxes', '/api/v1/ws/events', '/api/v1/sandbox/demo/ws']) {
    const origin = (value) => send(path, { origin: value }).result.headers.origin;
    assert.equal(origin({ value: 'https://console.example' }), undefined, path);
    for (const foreign of [
      'https://evil.example',
      'http://console.example',
      'https://console.example:8443',
      'https://console.example.evil.example',
      'null',
    ]) {
      assert.deepEqual(origin({ value: foreign }), { value: foreign }, `${path} from ${foreign}`);
    }
    const two = { value: 'https://console.example', multiValue: [{ value: 'https://console.example' }, { value: 'x' }] };
    assert.deepEqual(origin(two), two, path);
  }
});

test('Authorization header is kept', () => {
  for (const path of ['/api/v1/sandboxes', '/api/v1/ws/events', '/api/v1/sandbox/demo/ws']) {
    const { result } = send(path, { authorization: { value: 'Bearer t' } });
    assert.equal(result.headers.authorization.value, 'Bearer t', path);
  }
});

// The console

test('pages are served as index.html', () => {
  for (const page of [
    '/',
    '/command',
    '/sandboxes',
    '/sandbox/demo',
    '/sandbox/build-1.2',
    '/sandbox/build.js',
    '/compare/a/b',
    '/settings/',
    '/api',
    '/a.js/b',
  ]) {
    check(page, { origin: 'console', uri: '/index.html', query: {} });
  }
  for (const file of ['/index.html', '/favicon.ico', '/assets/index-B2xZ.js', '/assets/x.woff2', '/theme.js', '/favicon.svg', '/robots.txt']) {
    check(file, { origin: 'console', uri: file, query: {} });
  }
});

// The template

test('distribution has no custom error responses', () => {
  assert.ok(!lines.some((line) => /^\s*CustomErrorResponses:/.test(line)), 'see the top of console.yaml');
});

test('functions are within the size limit of CloudFront', () => {
  for (const [name, code] of Object.entries(functions())) {
    assert.ok(Buffer.byteLength(code) <= 10 * 1024, `${name} is over 10 KB`);
  }
});

function check(path, expected) {
  const { origin, result } = send(path);
  assert.equal(result.statusCode, undefined, `${path} was rejected: ${JSON.stringify(result.body)}`);
  assert.deepEqual({ origin, uri: result.uri, query: plain(result.querystring) }, expected, path);
}

/** Sends a request as CloudFront does: the first matching behavior, then its function. */
function send(path, headers = {}) {
  const [uri, query] = path.split('?');
  const { origin, functionName } = behaviors().find(({ pattern }) => matches(pattern, uri));
  const event = {
    version: '1.0',
    context: { eventType: 'viewer-request', requestId: 'request-1' },
    viewer: { ip: '192.0.2.1' },
    request: {
      method: 'GET',
      uri,
      querystring: parse(query),
      headers: { host: { value: 'console.example' }, ...headers },
      cookies: {},
    },
  };
  return { origin, result: JSON.parse(run(functions()[functionName], event)) };
}

/** Passes JSON, because objects of another context are never deeply equal to ours. */
function run(code, event) {
  const call = `JSON.stringify(handler(${JSON.stringify(event)}))`;
  return process.env.NJS
    ? execFileSync(process.env.NJS, ['-s', '-c', `${code}\nconsole.log(${call})`], { encoding: 'utf8' })
    : vm.runInNewContext(`${code}\n${call}`, {}, { timeout: 1000 });
}

/** CloudFront's patterns: * matches any characters including slashes, ? matches one. */
function matches(pattern, uri) {
  const escaped = pattern.replace(/[.+^${}()|[\]\\]/g, '\\$&').replaceAll('*', '.*').replaceAll('?', '.');
  return new RegExp(`^${escaped}$`).test(uri);
}

/** A query string as CloudFront passes it to a function: not decoded, repeated names in multiValue. */
function parse(text) {
  const query = {};
  for (const pair of (text ?? '').split('&').filter(Boolean)) {
    const [name, value = ''] = pair.split(/=(.*)/s);
    if (query[name]) {
      query[name].multiValue ??= [{ value: query[name].value }];
      query[name].multiValue.push({ value });
    } else {
      query[name] = { value };
    }
  }
  return query;
}

function plain(query) {
  const value = ({ value, multiValue }) => (multiValue ? multiValue.map((entry) => entry.value) : value);
  return Object.fromEntries(Object.entries(query).map(([name, entry]) => [name, value(entry)]));
}

/** The FunctionCode of each function of the template, by resource name. */
function functions() {
  const found = {};
  lines.forEach((line, at) => {
    if (!/^ {6}FunctionCode: \|$/.test(line)) return;
    const resource = lines.slice(0, at).findLast((above) => /^ {2}\w+:$/.test(above)).trim().slice(0, -1);
    const rest = lines.slice(at + 1);
    const end = rest.findIndex((below) => below.trim() !== '' && !below.startsWith(' '.repeat(8)));
    found[resource] = rest.slice(0, end).map((below) => below.slice(8)).join('\n');
  });
  assert.equal(Object.keys(found).length, 3, 'console.yaml must contain three functions with "FunctionCode: |"');
  return found;
}

/** The cache behaviors of the template in order, the default last. */
function behaviors() {
  const found = [];
  for (const line of lines) {
    const pattern = /^ {10}- PathPattern: (\S+)$/.exec(line);
    const origin = /^ {10,12}TargetOriginId: (\S+)$/.exec(line);
    const name = /FunctionARN: !GetAtt (\w+)\.FunctionARN$/.exec(line);
    if (pattern) found.push({ pattern: pattern[1] });
    if (/^ {8}DefaultCacheBehavior:$/.test(line)) found.push({ pattern: '*' });
    if (found.length > 0 && origin) found.at(-1).origin = origin[1];
    if (found.length > 0 && name) found.at(-1).functionName = name[1];
  }
  assert.equal(found.length, 5, 'console.yaml must contain four cache behaviors and the default');
  return found;
}
