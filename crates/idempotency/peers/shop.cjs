// What the services in JavaScript share: the options of the example service, its deed, and where the plug is pulled.
const { appendFileSync } = require('node:fs');
const { createServer } = require('node:http');
const { parseArgs } = require('node:util');

const text = { type: 'string' };
const { values: options } = parseArgs({
  options: { store: text, ledger: text, 'lease-ms': text, 'work-ms': text, 'halt-at': text, validate: text },
});
const work = () => new Promise((done) => setTimeout(done, Number(options['work-ms'] ?? 0)));
let receipts = 0;

function plug(point) {
  const [at, how] = (options['halt-at'] ?? '').split('=');
  if (at !== point) return;
  options['halt-at'] = '';
  process.kill(process.pid, how === 'kill' ? 'SIGKILL' : 'SIGSTOP');
}

// The deed, with work before it and after it.
async function pay(payment) {
  plug('before-effect');
  await work();
  const receipt = `${process.pid}-${++receipts}`;
  appendFileSync(options.ledger, JSON.stringify({ reference: payment.reference, receipt }) + '\n');
  plug('after-effect');
  await work();
  return { receipt, cents: payment.cents };
}

// Serves on a free port, and says what this is and where. A promise that nobody waits for must not end the process.
function serve(handler, ...what) {
  process.on('unhandledRejection', (reason) => console.error('nobody waited for', reason));
  const server = createServer(handler).listen(0, '127.0.0.1', () => {
    console.log('this is ' + what.join(', '));
    console.log(`listening on http://127.0.0.1:${server.address().port}`);
  });
}

// A package with its version as installed.
function version(name) {
  const folder = require.resolve.paths(name).find((path) => require('node:fs').existsSync(`${path}/${name}`));
  return `${name} ${require(`${folder}/${name}/package.json`).version}`;
}

module.exports = { options, pay, serve, version };
