# A process of redis-py that takes turns on one lock: see ../take-turns.mjs.
import json
import random
import select
import sys
import time

import redis
from redis.exceptions import LockError

order = json.loads(sys.argv[1])
server = order["servers"][0]
client = redis.Redis(host=server["host"], port=server["port"], password=server["password"])


def say(word):
    sys.stdout.write(f"{word} {time.monotonic_ns()}\n")
    sys.stdout.flush()


while not select.select([sys.stdin], [], [], 0)[0]:
    say("want")
    lock = client.lock(order["name"], timeout=order["ttlMs"] / 1000, sleep=0.04)
    lock.acquire()
    say("in")
    time.sleep(order["sectionMs"] * (0.5 + random.random()) / 1000)
    held = lock.owned()
    say("out")
    try:
        lock.release()
    except LockError:
        held = False
    if not held:
        say("lost")
    time.sleep(order["thinkMs"] * (0.5 + random.random()) / 1000)
