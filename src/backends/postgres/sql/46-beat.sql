-- Heartbeats of waiters: keep their tickets alive, say what became of them, and grant to the next if a dead holder's time is over.
-- A lock that another transaction has locked is passed over.
--
-- $1 p_locks
-- $2 p_claims
-- $3 p_inbox
-- $4 p_quarantine
--
-- Returns JSON, for each claim: what run() returns, "queued <last fence> <ms until the first lease is over>", "busy", or "absent".

create or replace function holdfast.beat(p_locks bytea[], p_claims text[], p_inbox text, p_quarantine bigint) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '3s' as $function$
declare
  asked record;
  row_0 holdfast.lease;
  mine holdfast.lease;
  now_us bigint;
  young bigint;
  answer text;
  answers text[] := array_fill('absent'::text, array[cardinality(p_claims)]);
begin
  perform holdfast.begin_step();
  young := holdfast.young(p_quarantine, 0);
  for asked in
    select a.lock, a.claim, a.n from unnest(p_locks, p_claims) with ordinality as a (lock, claim, n) order by a.lock, a.claim
  loop
    select * into row_0 from holdfast.lease as l where l.lock = asked.lock and l.place = 0 for update skip locked;
    if not found then
      if exists (select from holdfast.lease as l where l.lock = asked.lock and l.place = 0) then
        answers[asked.n] := 'busy';
      end if;
      continue;
    end if;
    if (row_0.waiting).claim is not null then
      row_0 := holdfast.move_waiter(row_0);
    end if;
    now_us := holdfast.now_us();
    update holdfast.waiter as w set asked_us = now_us, till_us = now_us + w.ticket_ms * 1000, inbox = p_inbox
    where w.lock = asked.lock and w.claim = asked.claim;
    if found then
      perform holdfast.promote(asked.lock, now_us, asked.claim, young);
    end if;
    update holdfast.lease as l set until_us = greatest(l.until_us, now_us + l.keep_ms * 1000),
      inbox = case when rtrim(l.inbox, '!') = p_inbox then l.inbox else p_inbox end
    where l.lock = asked.lock and l.claim = asked.claim and l.until_us > now_us and not l.kept
    returning * into mine;
    if found then
      answers[asked.n] := holdfast.run(mine, now_us);
    elsif exists (select from holdfast.waiter as w where w.lock = asked.lock and w.claim = asked.claim) then
      select 'queued ' || max(l.last) || ' ' || greatest(young, coalesce((min(l.until_us) filter (where l.until_us > now_us) - now_us) / 1000 + 1, 0))
      into answer from holdfast.lease as l where l.lock = asked.lock;
      answers[asked.n] := answer;
    end if;
  end loop;
  return array_to_json(answers)::text;
end
$function$;
