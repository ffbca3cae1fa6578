"""asgi-idempotency-header in a FastAPI application, on Redis, as its README has it."""

from importlib.metadata import version

import uvicorn
from fastapi import FastAPI, Request
from fastapi.middleware import Middleware
from fastapi.responses import JSONResponse
from idempotency_header_middleware import IdempotencyHeaderMiddleware
from idempotency_header_middleware.backends import RedisBackend
from redis.asyncio import from_url

from shop import Shop

shop = Shop()
backend = RedisBackend(redis=from_url(shop.options.store))
app = FastAPI(middleware=[Middleware(IdempotencyHeaderMiddleware, backend=backend)])


@app.post("/payments")
async def pay(request: Request):
    return JSONResponse(await shop.pay_async(await request.json()), 201)


packages = [f"{name} {version(name)}" for name in ("asgi-idempotency-header", "fastapi", "redis")]
uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[shop.listen(*packages)])
