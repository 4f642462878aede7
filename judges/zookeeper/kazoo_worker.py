# A process of kazoo that takes turns on one lock of ZooKeeper: see ../take-turns.mjs.
import json
import logging
import random
import select
import sys
import time

from kazoo.client import KazooClient, KazooState

order = json.loads(sys.argv[1])
logging.disable(logging.CRITICAL)
client = KazooClient(hosts=order["hosts"], timeout=order["ttlMs"] / 1000)
doubts = 0


def listen(state):
    global doubts
    if state != KazooState.CONNECTED:
        doubts += 1


client.add_listener(listen)
client.start()


def say(word):
    sys.stdout.write(f"{word} {time.monotonic_ns()}\n")
    sys.stdout.flush()


while not select.select([sys.stdin], [], [], 0)[0]:
    say("want")
    lock = client.Lock(order["path"])
    before = doubts
    lock.acquire()
    say("in")
    time.sleep(order["sectionMs"] * (0.5 + random.random()) / 1000)
    say("out")
    try:
        lock.release()
    except Exception:
        before = -1
    # Its documentation: whoever is suspended may have lost the lock.
    if doubts != before:
        say("lost")
    time.sleep(order["thinkMs"] * (0.5 + random.random()) / 1000)
client.stop()
