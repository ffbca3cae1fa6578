"""idemptx on a FastAPI route, on Redis, as its README has it.

Its one setting for time, `key_ttl`, is both how long a lock and how long an answer is kept; the lease is put there. Its
refusals are exceptions for which it names no status: they are 409 here.
"""

from importlib.metadata import version

import redis.asyncio
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from idemptx import IdempotencyConflictException, idempotent
from idemptx.backend import AsyncRedisBackend

from shop import Shop

shop = Shop()
backend = AsyncRedisBackend(redis.asyncio.from_url(shop.options.store))
app = FastAPI()


@app.exception_handler(IdempotencyConflictException)
async def conflict(_request: Request, error: IdempotencyConflictException):
    return JSONResponse({"error": repr(error)}, 409)


@app.post("/payments")
@idempotent(storage_backend=backend, key_ttl=shop.options.lease_ms // 1000)
async def pay(request: Request):
    return JSONResponse(await shop.pay_async(await request.json()), 201)


packages = [f"{name} {version(name)}" for name in ("idemptx", "fastapi", "redis")]
uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[shop.listen(*packages)])
