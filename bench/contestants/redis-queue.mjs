/**
 * The limit of a lock that is first come, first served: a script that takes it or joins a list, and one that gives it to the first of the
 * list and tells that process. Two commands for each hand-over, as ours. No time, no fence, no record; a holder that dies keeps it for ever.
 */
const TAKE = `
if redis.call('SET', KEYS[1], ARGV[1], 'PX', 30000, 'NX') then return 1 end
redis.call('RPUSH', KEYS[2], ARGV[1])
return 0`;
const GIVE = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
local next_one = redis.call('LPOP', KEYS[2])
if not next_one then return redis.call('DEL', KEYS[1]) end
redis.call('SET', KEYS[1], next_one, 'PX', 30000)
redis.call('PUBLISH', string.match(next_one, '^%S+'), next_one)
return 1`;

export async function queueAndPush(client, subscriber, loaded) {
  const [take, give] = [await loaded(client, TAKE), await loaded(client, GIVE)];
  const inbox = `bench-${process.pid}`;
  const waiting = new Map();
  // A message may come before the answer to the script that queued.
  const early = new Set();
  subscriber.on("message", (_, claim) => (waiting.has(claim) ? waiting.get(claim)() : early.add(claim)));
  await subscriber.subscribe(inbox);
  let n = 0;
  return {
    acquire: async (name) => {
      const claim = `${inbox} ${++n}`;
      const taken = await client.evalsha(take, 2, `{${name}}`, `{${name}}q`, claim);
      if (taken === 1 || early.delete(claim)) return { name, claim };
      await new Promise((resolve) => waiting.set(claim, resolve));
      waiting.delete(claim);
      return { name, claim };
    },
    release: ({ name, claim }) => client.evalsha(give, 2, `{${name}}`, `{${name}}q`, claim),
  };
}
