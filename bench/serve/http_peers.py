# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
"""Dynamic batchers behind HTTP on the loopback, with a model that sleeps, under the same open-loop load:

    python3 -m venv venv && venv/bin/pip install mosec nvidia-pytriton
    venv/bin/python bench/serve/http_peers.py build/host/bench/serve/serve_http_server > serve_http_peers.csv

A batch of n takes batch-ms + item-ms * n, one at a time; the capacity is that of full batches. Arrivals are Poisson,
the same for each server; a latency counts from the planned arrival. Connections are kept alive; after two deadlines
without an answer they are closed. Each server is started anew for each load, and warmed for a second. In time: status
200 within the deadline, also behind the last arrival, so that a share can be just above 1; late: 200 after it, or no
answer; refused: another status. Values are checked.

    mosec            waits 1 ms for a batch, the least; its timeout, of queue and execution, is the deadline
    mosec_bounded    and answers 429 when as many wait as full batches serve in 0.9 deadlines less two batches
    pytriton         no delay of the queue, which does best here, and no timeout, as by default
    pytriton_policy  and its queue policy rejects who has waited for 0.9 deadlines less a batch
    warpwright       batcher behind cpp-httplib (http_server.cpp), with 0.9 deadlines: the rest is for HTTP
"""
import argparse
import asyncio
import importlib.metadata
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from sysconfig import get_config_var

SERVERS = ("mosec", "mosec_bounded", "pytriton", "pytriton_policy", "warpwright")


def serve_mosec(seconds, most):
    import mosec

    class Model(mosec.Worker):
        def forward(self, data):
            time.sleep(seconds(len(data)))
            return data

    server = mosec.Server()  # its settings come from the environment
    server.append_worker(Model, max_batch_size=most, max_wait_time=1, start_method="fork")
    server.run()


def serve_pytriton(seconds, most, port, queue_us):
    import numpy
    from pytriton.decorators import batch
    from pytriton.model_config import DynamicBatcher, ModelConfig, Tensor
    from pytriton.model_config.common import QueuePolicy
    from pytriton.triton import Triton, TritonConfig

    @batch
    def model(x):
        time.sleep(seconds(len(x)))
        return [x]

    policy = QueuePolicy(default_timeout_microseconds=queue_us) if queue_us else None
    batcher = DynamicBatcher(max_queue_delay_microseconds=0, default_queue_policy=policy)
    x, y = (Tensor(name=name, dtype=numpy.int32, shape=(1,)) for name in "xy")
    config = TritonConfig(http_address="127.0.0.1", http_port=port, allow_grpc=False, allow_metrics=False)
    with Triton(config=config) as triton:
        triton.bind("model", model, [x], [y], config=ModelConfig(max_batch_size=most, batcher=batcher))
        signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # stops Triton, too
        triton.serve()


def start(server, a, home, log):
    full, budget = a.batch_ms + a.item_ms * a.max_batch, 0.9 * a.deadline_ms
    # Triton embeds Python, and must find the library of this one, not of another of the same version.
    env = dict(os.environ, LD_LIBRARY_PATH=get_config_var("LIBDIR"), PYTRITON_HOME=home, MOSEC_PORT=str(a.port),
               MOSEC_ADDRESS="127.0.0.1", MOSEC_LOG_LEVEL="error", MOSEC_TIMEOUT=str(a.deadline_ms))
    if server == "mosec_bounded":
        env["MOSEC_CAPACITY"] = str(max(1, int((budget - 2.0 * full) / full * a.max_batch)))
    queue_us = round(1e3 * max(1.0, budget - full)) if server == "pytriton_policy" else 0
    command = [sys.executable, __file__, "--serve", server, a.batch_ms, a.item_ms, a.max_batch, a.port, queue_us]
    if server == "warpwright":
        command = [a.warpwright, a.port, a.batch_ms, a.item_ms, a.max_batch, budget]
    return subprocess.Popen(list(map(str, command)), env=env, stdout=log, stderr=log)


async def ask(idle, a, triton, number):
    path = "/v2/models/model/infer" if triton else "/inference"
    body = '{"inputs":[{"name":"x","shape":[1,1],"datatype":"INT32","data":[%d]}]}' % number if triton else str(number)
    reader, writer = idle.pop() if idle else await asyncio.open_connection("127.0.0.1", a.port)
    try:
        writer.write(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                     f"Content-Length: {len(body)}\r\n\r\n{body}".encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        answer = (await reader.readexactly(int(head.split("content-length:")[1].split("\r\n")[0]))).decode()
    except BaseException:
        writer.close()
        raise
    idle.append((reader, writer))
    status = int(head.split()[1])
    if status == 200 and (f'"data":[{number}]' not in answer if triton else answer.strip() != str(number)):
        raise ValueError(f"{number} is answered with {answer}")
    return status


async def drive(idle, a, triton, per_second, seconds, seed):
    loop, draw, tasks = asyncio.get_running_loop(), random.Random(seed), []

    async def one(number, planned):
        status, limit = 0, planned + 2e-3 * a.deadline_ms  # 0: no answer
        try:
            status = await asyncio.wait_for(ask(idle, a, triton, number), limit - loop.time())
        except (OSError, EOFError, asyncio.TimeoutError):
            pass
        return loop.time() - planned, status

    begin = planned = loop.time()
    while (planned := planned + draw.expovariate(per_second)) < begin + seconds:
        await asyncio.sleep(max(0.0, planned - loop.time()))
        tasks.append(asyncio.ensure_future(one(len(tasks), planned)))
    return await asyncio.gather(*tasks)


async def measure(server, load, a, process):
    idle, triton, until = [], server.startswith("pytriton"), time.monotonic() + 60.0
    while not any(status == 200 for _, status in await drive(idle, a, triton, 10.0, 0.5, a.seed)):
        if process.poll() is not None or time.monotonic() > until:
            raise RuntimeError("it does not answer")
    capacity, deadline = 1e3 * a.max_batch / (a.batch_ms + a.item_ms * a.max_batch), 1e-3 * a.deadline_ms
    await drive(idle, a, triton, 0.3 * capacity, 1.0, a.seed)
    results = await drive(idle, a, triton, load * capacity, a.seconds, a.seed)
    answered = sorted(seconds for seconds, status in results if status == 200)
    in_time = sum(seconds <= deadline for seconds in answered)
    p50, p99 = (1e3 * answered[int(q * (len(answered) - 1))] if answered else 0.0 for q in (0.5, 0.99))
    rate, refused = in_time / a.seconds, sum(status not in (0, 200) for _, status in results)
    print(f"{server},{load:g},{len(results) / a.seconds:.1f},{rate:.1f},{rate / capacity:.3f},{p50:.1f},{p99:.1f},"
          f"{len(results) - in_time - refused},{refused}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("warpwright", help="the program serve_http_server")
    parser.add_argument("--servers", nargs="+", choices=SERVERS, default=SERVERS)
    parser.add_argument("--loads", nargs="+", type=float, default=[0.3, 0.8, 1.5, 3.0], help="of the capacity")
    numbers = dict(seconds=10.0, batch_ms=20.0, item_ms=2.0, deadline_ms=200, max_batch=16, seed=7, port=8471)
    for name, value in numbers.items():
        parser.add_argument("--" + name.replace("_", "-"), type=type(value), default=value)
    a = parser.parse_args()
    v = {d.metadata["Name"]: d.version for d in importlib.metadata.distributions()}
    print(f"# mosec {v.get('mosec')}, pytriton {v.get('nvidia-pytriton')}; {a.batch_ms:g} + {a.item_ms:g} n ms, n up "
          f"to {a.max_batch}; deadline {a.deadline_ms:g} ms; seed {a.seed}; p50 and p99 of all answers, late ones too")
    print("server,load,offered_per_s,answered_in_time_per_s,share_of_capacity,p50_ms,p99_ms,late,refused", flush=True)
    for server in a.servers:
        with tempfile.TemporaryDirectory(prefix="peer") as home, open(os.path.join(home, "log"), "w+") as log:
            try:
                for load in a.loads:
                    with start(server, a, home, log) as process:
                        try:
                            asyncio.run(measure(server, load, a, process))
                        finally:
                            process.terminate()
            except (OSError, RuntimeError) as error:
                log.seek(0)
                print(f"# {server} not run: {error} {''.join(log.read().splitlines()[-1:])}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        most, port, queue_us = map(int, sys.argv[5:])
        model = [lambda n: 1e-3 * (float(sys.argv[3]) + float(sys.argv[4]) * n), most]
        serve_mosec(*model) if sys.argv[2].startswith("mosec") else serve_pytriton(*model, port, queue_us)
    else:
        main()
