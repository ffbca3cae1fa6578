// Powertools for AWS Lambda (TypeScript): an idempotent function behind a small HTTP server, as powertools.py has it.
const { IdempotencyConfig, makeIdempotent } = require('@aws-lambda-powertools/idempotency');
const { CachePersistenceLayer } = require('@aws-lambda-powertools/idempotency/cache');
const { createClient } = require('@redis/client');
const { options, pay, serve, version } = require('./shop.cjs');

const status = {
  IdempotencyAlreadyInProgressError: 409,
  IdempotencyValidationError: 422,
  IdempotencyPersistenceLayerError: 503,
};
const context = { getRemainingTimeInMillis: () => Number(options['lease-ms']) };

async function start() {
  const client = createClient({ url: options.store });
  client.on('error', (error) => console.error(error.message));
  await client.connect();
  const config = new IdempotencyConfig({
    eventKeyJmesPath: 'headers."Idempotency-Key"',
    payloadValidationJmesPath: options.validate,
  });
  const idempotent = makeIdempotent(async (event, _context) => pay(JSON.parse(event.body)), {
    config,
    persistenceStore: new CachePersistenceLayer({ client }),
  });
  const door = async (request, response) => {
    let body = '';
    for await (const part of request) body += part;
    const event = { headers: { 'Idempotency-Key': request.headers['idempotency-key'] }, body };
    const [code, answer] = await idempotent(event, context).then(
      (answer) => [201, answer],
      (error) => [status[error.name] ?? 500, { error: String(error) }],
    );
    response.writeHead(code, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
  };
  serve(door, version('@aws-lambda-powertools/idempotency'), version('@redis/client'));
}
start();
