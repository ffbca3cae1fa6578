// express-idempotency, as its README has it, on its memory or on Redis by the adapter that is published for it.
const express = require('express');
const { getSharedIdempotencyService, idempotency } = require('express-idempotency');
const { default: RedisAdapter } = require('express-idempotency-redis-adapter');
const { options, pay, serve, version } = require('./shop.cjs');

async function start() {
  const settings = {};
  const packages = ['express-idempotency', 'express'];
  if (options.store !== 'memory') {
    const { createClient } = require(
      require.resolve('@redis/client', { paths: [require.resolve('express-idempotency-redis-adapter')] }),
    );
    const connectionInstance = createClient({ url: options.store });
    connectionInstance.on('error', (error) => console.error(error.message));
    settings.dataAdapter = new RedisAdapter({ connectionInstance });
    await settings.dataAdapter.connect();
    packages.push('express-idempotency-redis-adapter');
  }
  const app = express();
  app.use(express.json({ limit: '4mb' }));
  app.post('*', idempotency(settings));
  app.post('/payments', async (request, response, next) => {
    const service = getSharedIdempotencyService();
    if (service.isHit(request)) return;
    try {
      response.status(201).json(await pay(request.body));
    } catch (error) {
      await service.reportError(request);
      next(error);
    }
  });
  serve(app, ...packages.map(version));
}
start();
