"""What a program that uses the published E2B package sees. Prints one JSON object."""

import concurrent.futures
import io
import json
import os
import statistics
import sys
import time

from e2b import Sandbox

ours, nothing, key, rounds, at_once, megabytes = sys.argv[1:]
rounds, at_once, size = int(rounds), int(at_once), int(megabytes) * 1_000_000


def make(url):
    api = f"{url}/e2b" if url == ours else url
    return Sandbox.create(api_key=key, api_url=api, sandbox_url=url, timeout=300)


def timed(work):
    begun = time.perf_counter()
    result = work()
    return (time.perf_counter() - begun) * 1000, result


def first_command(url):
    def work():
        sandbox = make(url)
        sandbox.commands.run("true")
        return sandbox

    took, sandbox = timed(work)
    sandbox.kill()
    return took


def race(lap):
    """Both take turns; the first rounds only warm up."""
    times = {url: [] for url in (ours, nothing)}
    for number in range(rounds + 3):
        for url, samples in times.items():
            took = lap(url)
            if number >= 3:
                samples.append(took)
    return {"warren": times[ours], "sdk_alone": times[nothing]}


def commands():
    live = {url: make(url) for url in (ours, nothing)}
    times = race(lambda url: timed(lambda: live[url].commands.run("true"))[0])
    for sandbox in live.values():
        sandbox.kill()
    return times


def burst():
    with concurrent.futures.ThreadPoolExecutor(at_once) as hands:
        took, sandboxes = timed(lambda: list(hands.map(lambda _: make(ours), range(at_once))))
        list(hands.map(lambda sandbox: sandbox.kill(), sandboxes))
    return took


def transfers():
    body, sandbox = os.urandom(size), make(ours)
    up, down = [], []
    for _ in range(5):
        took, _ = timed(lambda: sandbox.files.write("/dev/shm/bench", io.BytesIO(body), request_timeout=300))
        up.append(took)
        took, back = timed(lambda: sandbox.files.read("/dev/shm/bench", format="bytes", request_timeout=300))
        down.append(took)
        assert len(back) == size
    sandbox.kill()
    return [size / 1000 / statistics.median(times) for times in (up, down)]


upload, download = transfers()
print(
    json.dumps(
        {
            "create": race(first_command),
            "run": commands(),
            "burst_ms": burst(),
            "upload_mb_per_second": upload,
            "download_mb_per_second": download,
        }
    )
)
