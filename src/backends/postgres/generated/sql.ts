// Generated from ../sql/*.sql by scripts/build-sql.mjs. Do not edit.

/**
 * Everything is in a schema of its own and named in full, so no search_path can split a mark in two. What exists already
 * must belong to the role that runs this: otherwise another role's triggers on our tables would run with the rights of
 * every guarded role. Raises LK003 otherwise.
 */
export const SCHEMA: string = "do $function$\ndeclare\n  me constant oid := (select r.oid from pg_catalog.pg_roles as r where r.rolname = current_user);\n  stranger record;\nbegin\n  if not exists (select from pg_catalog.pg_namespace as n where n.nspname = 'holdfast') then\n    -- Not \"if not exists\": a stranger's that came in between must fail it.\n    create schema holdfast;\n  end if;\n  select made.what, pg_catalog.pg_get_userbyid(made.owner) as owner into stranger\n  from pg_catalog.pg_namespace as n\n  cross join lateral (\n    select 'schema holdfast' as what, n.nspowner as owner\n    union all\n    select 'relation holdfast.' || c.relname, c.relowner from pg_catalog.pg_class as c where c.relnamespace = n.oid\n    union all\n    select 'function holdfast.' || p.proname, p.proowner from pg_catalog.pg_proc as p where p.pronamespace = n.oid\n    union all\n    select 'type holdfast.' || t.typname, t.typowner from pg_catalog.pg_type as t where t.typnamespace = n.oid\n    union all\n    select 'operator holdfast.' || o.oprname, o.oprowner from pg_catalog.pg_operator as o where o.oprnamespace = n.oid\n  ) as made\n  where n.nspname = 'holdfast' and made.owner <> me\n  limit 1;\n  if stranger.owner is not null then\n    raise exception 'The % belongs to role \"%\", not to \"%\", who runs this migration: nothing was changed', stranger.what, stranger.owner, current_user\n      using errcode = 'LK003',\n      hint = 'If you trust that role, run the migration as it (SET ROLE). If not, find out who made it, and drop it.';\n  end if;\nend\n$function$";

/**
 * One row about the whole store: the version of these tables, the timeline on which they were last written, the quarantine after
 * a change of it, and the greatest fence of any lock whose row was removed.
 */
export const STORE: string = "create table if not exists holdfast.store (\n  one boolean primary key default true check (one),\n  version integer not null,\n  timeline text not null,\n  -- When a change of the timeline was noticed, µs since 1970.\n  changed_us bigint not null default 0,\n  -- The longest that any process asked for. 0: none did.\n  quarantine_ms bigint not null default 0,\n  floor bigint not null default 0\n) with (fillfactor = 50)";

/**
 * The leases. Row 0 of a lock is its first place and its memory, and every step on a lock locks it first. A lock that one claim
 * holds at a time has no other row, so its row is only ever updated in place. Further holders have a row each.
 * Times are µs since 1970, by the clock of the server.
 */
export const LEASE: string = "create table if not exists holdfast.lease (\n  -- In UTF-8: a name may have bytes that text cannot hold, and the order of bytes never changes, as that of a collation may.\n  lock bytea not null,\n  place bigint not null,\n  -- In row 0: the greatest fence given so far.\n  last bigint not null default 0,\n  -- In row 0: whether there may be more rows of this lock, here or among the waiters. False is certain.\n  crowded boolean not null default false,\n  -- In row 0: until when an outcome is kept for this lock. 0: there is none. It stands here too, so that a single update can ask for it.\n  done_us bigint not null default 0,\n  -- The lease is over when this has passed. 0: none.\n  until_us bigint not null default 0,\n  claim text collate \"C\",\n  -- Released before its minHold: no claim holds it, but its place is taken.\n  kept boolean not null default false,\n  shared boolean not null default false,\n  most integer not null default 1,\n  fence bigint not null default 0,\n  run integer not null default 1,\n  since_us bigint not null default 0,\n  -- ttl and lockDelay: how long a heartbeat of its claim extends it.\n  keep_ms bigint not null default 0,\n  -- The lockDelay in it: in that last part of its time no process trusts it any more.\n  delay_ms bigint not null default 0,\n  min_hold_ms bigint not null default 0,\n  -- The channel on which its process listens, if it does. With \"!\" after it, the holder wants to know when a claim begins to wait.\n  inbox text collate \"C\",\n  detail text,\n  primary key (lock, place)\n) with (fillfactor = 40, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500)";

/**
 * The queue. Rows of a lock are only touched by a transaction that has locked the lock's row 0.
 */
export const WAITER: string = "create table if not exists holdfast.waiter (\n  lock bytea not null,\n  claim text collate \"C\" not null,\n  -- The order of arrival.\n  ticket bigint not null,\n  -- The last sign of life, and the end of the ticket if there is no other until then.\n  asked_us bigint not null,\n  till_us bigint not null,\n  ticket_ms bigint not null,\n  shared boolean not null,\n  most integer not null,\n  run integer not null,\n  ttl_ms bigint not null,\n  delay_ms bigint not null,\n  min_hold_ms bigint not null,\n  since_us bigint not null,\n  -- It takes an outcome instead of the lock, if there is one.\n  wants boolean not null,\n  inbox text collate \"C\",\n  detail text,\n  primary key (lock, claim)\n) with (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500)";

/**
 * The next waiter is found without looking at the others. Not `if not exists`, which locks the queue before it looks: an upgrade has the
 * table of leases for itself by then, and no step may wait for it while it waits for another.
 */
export const WAITER_ORDER: string = "do $function$\nbegin\n  if pg_catalog.to_regclass('holdfast.waiter_order') is null then\n    create unique index waiter_order on holdfast.waiter (lock, ticket);\n  end if;\nend\n$function$";

/**
 * Who ended which lease by force, and why: kept for an hour.
 */
export const FORCED: string = "create table if not exists holdfast.forced (\n  lock bytea not null,\n  fence bigint not null,\n  claim text collate \"C\" not null,\n  at_us bigint not null,\n  who text not null,\n  primary key (lock, fence)\n)";

/**
 * The one row of the store.
 */
export const STORE_ROW: string = "insert into holdfast.store (version, timeline)\nvalues (3, pg_catalog.left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 8))\non conflict (one) do update set version = greatest(holdfast.store.version, excluded.version)";

/**
 * What the work under a lease came to, kept after the lease. One for each lock; row 0 of the lock says until when, and outlives it.
 */
export const OUTCOME: string = "create table if not exists holdfast.outcome (\n  lock bytea primary key,\n  claim text collate \"C\" not null,\n  fence bigint not null,\n  kept_us bigint not null,\n  till_us bigint not null,\n  -- Who held the lease.\n  detail text,\n  -- In UTF-8: it may have bytes that text cannot hold.\n  value bytea not null\n)";

/**
 * In row 0 of a lock: its only waiter, while there is one holder and no other claim, which saves a row in the queue with two indexes.
 * Then `crowded` is false. Whatever comes next moves it to the queue. All steps wait behind this, so it gives up soon, lets them pass, and
 * tries again; after some tries it fails, and the migration with it. Each try is longer than `deadlock_timeout`, after which the server ends
 * an automatic clean-up that is in the way.
 */
export const WAITING: string = "do $function$\ndeclare\n  limit_before text := pg_catalog.current_setting('lock_timeout');\nbegin\n  for tries_left in reverse 5..0 loop\n    exit when exists (\n      select from pg_catalog.pg_attribute as a\n      where a.attrelid = 'holdfast.lease'::pg_catalog.regclass and a.attname = 'waiting' and not a.attisdropped);\n    begin\n      perform pg_catalog.set_config('lock_timeout', '1500ms', true);\n      alter table holdfast.lease add column if not exists waiting holdfast.waiter;\n      perform pg_catalog.set_config('lock_timeout', limit_before, true);\n    exception when lock_not_available then\n      if tries_left = 0 then\n        raise;\n      end if;\n      perform pg_catalog.pg_sleep(0.2);\n    end;\n  end loop;\nend\n$function$";

/**
 * Functions of a later version must not be replaced by older ones. Raises LK005 then.
 */
export const VERSION_CHECK: string = "do $function$\nbegin\n  if pg_catalog.to_regclass('holdfast.store') is not null then\n    if (select s.version from holdfast.store as s) > 3 then\n      raise exception 'The tables in the schema holdfast were made by a later version of Holdfast: nothing was changed'\n        using errcode = 'LK005', hint = 'Run the migration of that version, or none.';\n    end if;\n  end if;\nend\n$function$";

/**
 * The clock of the server, µs since 1970. Not that of the transaction, which stands still while a step waits for a row.
 * In plpgsql, as all functions that steps call: it keeps their plans, and a function in SQL would be planned in each transaction anew.
 */
export const NOW_US: string = "create or replace function holdfast.now_us() returns bigint\nlanguage plpgsql volatile parallel unsafe set search_path = pg_catalog, pg_temp as $function$\nbegin\n  return (extract(epoch from clock_timestamp()) * 1000000)::bigint;\nend\n$function$";

/**
 * What every step that writes needs before it looks at anything: each of its statements sees what was committed before that
 * statement (LK004 otherwise), and its commit survives a crash of the server, whatever the role's settings are.
 */
export const BEGIN_STEP: string = "create or replace function holdfast.begin_step() returns void\nlanguage plpgsql set search_path = pg_catalog, pg_temp as $function$\nbegin\n  -- Postgres does not know \"read uncommitted\": it is the same.\n  if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then\n    raise exception 'Holdfast needs transactions of the level \"read committed\", not \"%\"', current_setting('transaction_isolation')\n      using errcode = 'LK004', hint = 'Set default_transaction_isolation to ''read committed'' for the role that Holdfast uses.';\n  end if;\n  if current_setting('synchronous_commit') = 'off' then\n    -- Until the end of this transaction.\n    perform set_config('synchronous_commit', 'on', true);\n  end if;\nend\n$function$";

/**
 * Move the waiter in row 0 to the queue, if there is one. The caller has locked row 0.
 *
 * $1 p_row_0
 *
 * One that has what it waits for is not moved, and learns it when it asks again: a step of an older version, which runs to its end during an
 * upgrade, may have kept the outcome that it wants, or granted it the lock, and does not know this place.
 *
 * Returns the row as it then is.
 */
export const MOVE_WAITER: string = "create or replace function holdfast.move_waiter(p_row_0 holdfast.lease) returns holdfast.lease\nlanguage plpgsql set search_path = pg_catalog, pg_temp as $function$\ndeclare\n  row_0 holdfast.lease := p_row_0;\n  now_us bigint;\nbegin\n  if (row_0.waiting).claim is not null then\n    now_us := holdfast.now_us();\n    -- A conflict cannot be, and an error would keep this lock from all steps for ever: who has lost its place asks again.\n    insert into holdfast.waiter select (row_0.waiting).*\n    where not ((row_0.waiting).wants and row_0.done_us > now_us)\n      and (row_0.claim = (row_0.waiting).claim and row_0.until_us > now_us) is not true\n    on conflict do nothing;\n    update holdfast.lease as l set waiting = null, crowded = true where l.lock = row_0.lock and l.place = 0 returning * into row_0;\n  end if;\n  return row_0;\nend\n$function$";

/**
 * Lock row 0 of a lock until the transaction ends, and return it as it then is: whatever other transactions did to this lock
 * before is committed, and whatever they do next waits. A lock without rows gets one if p_make says so. All waiters are in the queue then.
 *
 * $1 p_lock
 * $2 p_make
 */
export const OPEN_LOCK: string = "create or replace function holdfast.open_lock(p_lock bytea, p_make boolean) returns holdfast.lease\nlanguage plpgsql set search_path = pg_catalog, pg_temp as $function$\ndeclare\n  row_0 holdfast.lease;\nbegin\n  loop\n    select * into row_0 from holdfast.lease as l where l.lock = p_lock and l.place = 0 for update;\n    if found or not p_make then\n      return holdfast.move_waiter(row_0);\n    end if;\n    insert into holdfast.lease as l (lock, place) values (p_lock, 0) on conflict do nothing;\n    if found then\n      -- The floor is read after the insert: a removal of the row that came before it has been committed, with its floor.\n      update holdfast.lease as l set last = s.floor from holdfast.store as s where l.lock = p_lock and l.place = 0;\n    end if;\n  end loop;\nend\n$function$";

/**
 * How many ms nothing may be granted, because this server was promoted and may not have the last leases of the one before.
 * Each promotion begins a timeline. A quarantine that any process asked for holds for all.
 *
 * $1 p_quarantine
 * $2 p_longest
 *
 * p_longest: how long the lease that is asked for would last without a renewal, in ms; 0 for none. Raises LK006 if that is longer than what
 * a quarantine covers, which processes that did not ask for one would not notice.
 */
export const YOUNG: string = "create or replace function holdfast.young(p_quarantine bigint, p_longest bigint) returns bigint\nlanguage plpgsql set search_path = pg_catalog, pg_temp as $function$\ndeclare\n  known holdfast.store;\n  timeline_now text;\nbegin\n  select * into known from holdfast.store;\n  if p_quarantine = 0 and known.quarantine_ms = 0 then\n    return 0;\n  end if;\n  timeline_now := pg_catalog.left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 8);\n  if known.timeline <> timeline_now or known.quarantine_ms < p_quarantine then\n    update holdfast.store as s set\n      quarantine_ms = greatest(s.quarantine_ms, p_quarantine),\n      changed_us = case when s.timeline = timeline_now then s.changed_us else holdfast.now_us() end,\n      timeline = timeline_now\n    returning * into known;\n  end if;\n  -- 2000 ms: as much as the quarantine is longer than the longest lease; see options.ts.\n  if p_longest + 2000 > known.quarantine_ms and p_longest > 0 then\n    raise exception 'its ttl and lockDelay (% ms) are longer than `maxTtl` of a process that asked for a quarantine after fail-overs (% ms), so that would end before it',\n      p_longest, known.quarantine_ms - 2000 using errcode = 'LK006', hint = 'Use a shorter ttl, or a longer maxTtl in every process.';\n  end if;\n  return greatest(0, (known.changed_us + known.quarantine_ms * 1000 - holdfast.now_us() + 999) / 1000);\nend\n$function$";

/**
 * Give a claim a lease. The caller has locked row 0 and found that the claim fits beside the others.
 *
 * $1 p_terms
 * $2 p_now
 * $3 p_until
 *
 * Returns the fence and the run, with a space between them.
 */
export const GRANT_LEASE: string = "create or replace function holdfast.grant_lease(p_terms holdfast.waiter, p_now bigint, p_until bigint) returns text\nlanguage plpgsql set search_path = pg_catalog, pg_temp as $function$\ndeclare\n  row_0 holdfast.lease;\n  new_fence bigint;\n  new_run integer := 1;\nbegin\n  select * into row_0 from holdfast.lease as l where l.lock = p_terms.lock and l.place = 0;\n  new_fence := greatest(row_0.last + 1, p_now);\n  -- Where several hold at a time, a later holder of this run would be below an earlier one of the next. And while the counter\n  -- is ahead of the clock, it must not run further ahead.\n  if not p_terms.shared and p_terms.most = 1 and new_fence = p_now then\n    new_run := p_terms.run;\n  end if;\n  if row_0.until_us <= p_now then\n    update holdfast.lease as l set\n      last = new_fence + new_run - 1, until_us = p_until, claim = p_terms.claim, kept = false, shared = p_terms.shared,\n      most = p_terms.most, fence = new_fence, run = new_run, since_us = p_now, keep_ms = p_terms.ttl_ms + p_terms.delay_ms,\n      delay_ms = p_terms.delay_ms, min_hold_ms = p_terms.min_hold_ms, inbox = p_terms.inbox, detail = p_terms.detail\n    where l.lock = p_terms.lock and l.place = 0;\n  else\n    update holdfast.lease as l set last = new_fence, crowded = true where l.lock = p_terms.lock and l.place = 0;\n    insert into holdfast.lease (\n      lock, place, until_us, claim, shared, most, fence, run, since_us, keep_ms, delay_ms, min_hold_ms, inbox, detail\n    ) values (\n      p_terms.lock, (select max(l.place) + 1 from holdfast.lease as l where l.lock = p_terms.lock), p_until, p_terms.claim,\n      p_terms.shared, p_terms.most, new_fence, new_run, p_now, p_terms.ttl_ms + p_terms.delay_ms, p_terms.delay_ms,\n      p_terms.min_hold_ms, p_terms.inbox, p_terms.detail\n    );\n  end if;\n  return new_fence || ' ' || new_run;\nend\n$function$";

/**
 * Tell a process of one of its claims. Every role of the database can send such messages, so this one shows the beginning of the
 * claim's id and proves with a hash that its sender knows the rest.
 *
 * $1 p_inbox
 * $2 p_claim
 * $3 p_news
 */
export const SEND_NEWS: string = "create or replace function holdfast.send_news(p_inbox text, p_claim text, p_news text) returns void\nlanguage plpgsql set search_path = pg_catalog, pg_temp as $function$\nbegin\n  if p_inbox is not null then\n    perform pg_catalog.pg_notify(pg_catalog.rtrim(p_inbox, '!'), pg_catalog.left(p_claim, 8) || ' ' || p_news || ' ' || pg_catalog.left(\n      pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(p_claim || ' ' || p_news, 'UTF8')), 'hex'), 24));\n  end if;\nend\n$function$";

/**
 * Whether a claim that waits is in need of what this one holds: readers are all in its way, and of several holders the oldest is.
 *
 * $1 p_lease
 * $2 p_now
 */
export const WANTED: string = "create or replace function holdfast.wanted(p_lease holdfast.lease, p_now bigint) returns boolean\nlanguage plpgsql stable set search_path = pg_catalog, pg_temp as $function$\nbegin\n  return (\n    exists (select from holdfast.waiter as w where w.lock = p_lease.lock and w.till_us > p_now)\n    or exists (select from holdfast.lease as z where z.lock = p_lease.lock and z.place = 0 and (z.waiting).till_us > p_now)\n  ) and (\n    p_lease.shared or not exists (\n      select from holdfast.lease as o\n      where o.lock = p_lease.lock and o.until_us > p_now and not o.kept and o.fence < p_lease.fence));\nend\n$function$";

/**
 * Remove leases and tickets that are over, and grant to the waiters who are next, as many as fit. The caller has locked row 0.
 *
 * $1 p_lock
 * $2 p_now
 * $3 p_asking
 * $4 p_young
 *
 * Returns true if no claim waits.
 */
export const PROMOTE: string = "create or replace function holdfast.promote(p_lock bytea, p_now bigint, p_asking text, p_young bigint) returns boolean\nlanguage plpgsql set search_path = pg_catalog, pg_temp as $function$\ndeclare\n  next_one holdfast.waiter;\n  holders bigint;\n  all_shared boolean;\n  granted text[];\n  waited_for boolean;\n  has_more boolean;\nbegin\n  -- A row that a renewal has locked is waited for, and judged by what the renewal made of it.\n  delete from holdfast.lease as l where l.lock = p_lock and l.place > 0 and l.until_us <= p_now;\n  -- The claim that asks is alive, whatever its ticket says. One that would hold for longer than a quarantine covers queued before that was\n  -- asked for: it is refused when it asks again; see young().\n  delete from holdfast.waiter as w where w.lock = p_lock and ((w.till_us <= p_now and w.claim <> p_asking)\n    or w.ttl_ms + w.delay_ms + 2000 > (select nullif(s.quarantine_ms, 0) from holdfast.store as s));\n  select count(*), bool_and(l.shared) into holders, all_shared\n  from holdfast.lease as l where l.lock = p_lock and l.until_us > p_now;\n  loop\n    select * into next_one from holdfast.waiter as w where w.lock = p_lock order by w.ticket limit 1;\n    waited_for := found;\n    exit when not waited_for or p_young > 0;\n    exit when holders > 0 and (all_shared <> next_one.shared or (not next_one.shared and holders >= next_one.most));\n    delete from holdfast.waiter as w where w.lock = p_lock and w.claim = next_one.claim;\n    -- It lasts from the last sign of life: its process trusts it from there, and a dead one keeps it no longer.\n    perform holdfast.grant_lease(next_one, p_now, next_one.asked_us + (next_one.ttl_ms + next_one.delay_ms) * 1000);\n    holders := holders + 1;\n    all_shared := next_one.shared;\n    if next_one.claim <> p_asking then\n      granted := granted || next_one.claim;\n    end if;\n  end loop;\n  -- After the last grant, when it is known who still waits.\n  if granted is not null then\n    perform holdfast.send_news(l.inbox, l.claim, holdfast.run(l, p_now))\n    from holdfast.lease as l where l.lock = p_lock and l.claim = any (granted);\n  end if;\n  has_more := waited_for or exists (select from holdfast.lease as l where l.lock = p_lock and l.place > 0);\n  update holdfast.lease as l set crowded = has_more where l.lock = p_lock and l.place = 0 and l.crowded <> has_more;\n  return not waited_for;\nend\n$function$";

/**
 * End a claim, held or queued. The caller has locked row 0, and lets the next ones in.
 *
 * $1 p_lock
 * $2 p_claim
 * $3 p_min_hold
 * $4 p_now
 *
 * Returns "held", "queued" or "absent".
 */
export const LEAVE: string = "create or replace function holdfast.leave(p_lock bytea, p_claim text, p_min_hold bigint, p_now bigint) returns text\nlanguage plpgsql set search_path = pg_catalog, pg_temp as $function$\ndeclare\n  mine holdfast.lease;\n  kept_us bigint;\nbegin\n  delete from holdfast.waiter as w where w.lock = p_lock and w.claim = p_claim;\n  if found then\n    return 'queued';\n  end if;\n  select * into mine from holdfast.lease as l\n  where l.lock = p_lock and l.claim = p_claim and l.until_us > p_now and not l.kept;\n  if not found then\n    return 'absent';\n  end if;\n  -- A process that resumes another's lease need not know its terms: those of the lease count, if it says -1.\n  -- A clock that was set back since must not make it longer.\n  kept_us := least(mine.since_us, p_now) + 1000 * case when p_min_hold < 0 then mine.min_hold_ms else p_min_hold end;\n  if kept_us > p_now then\n    update holdfast.lease as l set kept = true, until_us = kept_us where l.lock = p_lock and l.place = mine.place;\n  elsif mine.place = 0 then\n    update holdfast.lease as l set until_us = 0, claim = null where l.lock = p_lock and l.place = 0;\n  else\n    delete from holdfast.lease as l where l.lock = p_lock and l.place = mine.place;\n  end if;\n  return 'held';\nend\n$function$";

/**
 * What a claim learns of its lease: "granted <fence> <run>", and " w" if another claim waits for it.
 *
 * $1 p_lease
 * $2 p_now
 */
export const RUN: string = "create or replace function holdfast.run(p_lease holdfast.lease, p_now bigint) returns text\nlanguage plpgsql stable set search_path = pg_catalog, pg_temp as $function$\nbegin\n  return 'granted ' || p_lease.fence || ' ' || p_lease.run || case when holdfast.wanted(p_lease, p_now) then ' w' else '' end;\nend\n$function$";

/**
 * A holder as others see it, as JSON. "remainder": no process holds it any more, and this keeps the lock taken.
 *
 * $1 p_lease
 * $2 p_now
 */
export const HOLDING: string = "create or replace function holdfast.holding(p_lease holdfast.lease, p_now bigint) returns json\nlanguage plpgsql stable set search_path = pg_catalog, pg_temp as $function$\nbegin\n  return json_build_object(\n    'kind', 'held', 'lock', encode(p_lease.lock, 'hex'), 'id', p_lease.claim, 'shared', p_lease.shared, 'most', p_lease.most,\n    'fence', p_lease.fence::text, 'held', (p_now - p_lease.since_us) / 1000, 'left', (p_lease.until_us - p_now) / 1000,\n    'detail', p_lease.detail, 'remainder', case\n      when p_lease.kept then 'minHold'\n      when p_lease.delay_ms > 0 and p_lease.until_us - p_lease.delay_ms * 1000 <= p_now then 'lockDelay' end);\nend\n$function$";

/**
 * What a refused claim learns. `place`: its own in the queue, 0 if it does not wait. `last`: the greatest fence given so far, so
 * that each later grant has a greater one. `ahead`: ms until the first lease is over. `held`: some of the holders.
 *
 * $1 p_lock
 * $2 p_claim
 * $3 p_now
 * $4 p_young
 */
export const REFUSAL: string = "create or replace function holdfast.refusal(p_lock bytea, p_claim text, p_now bigint, p_young bigint) returns text\nlanguage plpgsql set search_path = pg_catalog, pg_temp as $function$\nbegin\n  return 'refused ' || json_build_object(\n    'place', (\n      select count(*) from holdfast.waiter as w, holdfast.waiter as mine\n      where mine.lock = p_lock and mine.claim = p_claim and w.lock = p_lock and w.ticket <= mine.ticket),\n    'young', p_young, 'now', p_now::text,\n    'last', (select l.last::text from holdfast.lease as l where l.lock = p_lock and l.place = 0),\n    'ahead', (\n      select (min(l.until_us) - p_now) / 1000 + 1 from holdfast.lease as l where l.lock = p_lock and l.until_us > p_now),\n    'held', (\n      select json_agg(holdfast.holding(h.lease, p_now))\n      from (select l as lease from holdfast.lease as l where l.lock = p_lock and l.until_us > p_now order by l.fence limit 8) as h)\n  );\nend\n$function$";

/**
 * The outcome that is kept for a lock, as JSON; null: there is none.
 *
 * $1 p_lock
 * $2 p_now
 */
export const KEPT_OUTCOME: string = "create or replace function holdfast.kept_outcome(p_lock bytea, p_now bigint) returns text\nlanguage plpgsql stable set search_path = pg_catalog, pg_temp as $function$\nbegin\n  return (select json_build_object(\n    'kind', 'outcome', 'lock', encode(o.lock, 'hex'), 'fence', o.fence::text, 'age', (p_now - o.kept_us) / 1000,\n    'left', (o.till_us - p_now + 999) / 1000, 'detail', o.detail, 'value', encode(o.value, 'hex'))::text\n  from holdfast.outcome as o where o.lock = p_lock and o.till_us > p_now);\nend\n$function$";

/**
 * Grant the claim, or queue it. The caller has locked row 0.
 *
 * $1 p_terms
 * $2 p_now
 * $3 p_young
 *
 * Returns what run() returns; "outcome " and JSON, for a claim that wants that and may have it; "limit <n>" if the lock is in use with
 * another; or "refused " and JSON.
 */
export const ENTER: string = "create or replace function holdfast.enter(p_terms holdfast.waiter, p_now bigint, p_young bigint) returns text\nlanguage plpgsql set search_path = pg_catalog, pg_temp as $function$\ndeclare\n  terms holdfast.waiter := p_terms;\n  mine holdfast.lease;\n  waits boolean := false;\n  queue_empty boolean;\n  known_limit integer;\n  holders bigint;\n  all_shared boolean;\n  done text;\nbegin\n  mine := holdfast.keep_on(terms, p_now);\n  if mine.lock is not null then\n    -- A repeated attempt: the reply to the first was lost. In a swap, the claim that left may have blocked others.\n    perform holdfast.promote(terms.lock, p_now, terms.claim, p_young);\n    return holdfast.run(mine, p_now);\n  end if;\n  if terms.wants then\n    done := holdfast.kept_outcome(terms.lock, p_now);\n  end if;\n  if terms.ticket_ms > 0 and done is null then\n    update holdfast.waiter as w set\n      asked_us = p_now, till_us = p_now + terms.ticket_ms * 1000, ticket_ms = terms.ticket_ms, ttl_ms = terms.ttl_ms,\n      delay_ms = terms.delay_ms, min_hold_ms = terms.min_hold_ms, wants = terms.wants, inbox = terms.inbox, detail = terms.detail\n    where w.lock = terms.lock and w.claim = terms.claim;\n    waits := found;\n  else\n    delete from holdfast.waiter as w where w.lock = terms.lock and w.claim = terms.claim;\n  end if;\n  queue_empty := holdfast.promote(terms.lock, p_now, terms.claim, p_young);\n  if done is not null then\n    return 'outcome ' || done;\n  end if;\n  if waits then\n    select * into mine from holdfast.lease as l where l.lock = terms.lock and l.claim = terms.claim and l.until_us > p_now and not l.kept;\n    if found then\n      return holdfast.run(mine, p_now);\n    end if;\n    return holdfast.refusal(terms.lock, terms.claim, p_now, p_young);\n  end if;\n  select count(*), bool_and(l.shared), min(l.most) into holders, all_shared, known_limit\n  from holdfast.lease as l where l.lock = terms.lock and l.until_us > p_now;\n  if not terms.shared then\n    if holders = 0 or all_shared then\n      select w.most into known_limit from holdfast.waiter as w where w.lock = terms.lock and not w.shared order by w.ticket limit 1;\n    end if;\n    if known_limit <> terms.most then\n      return 'limit ' || known_limit;\n    end if;\n  end if;\n  if queue_empty and p_young = 0 and (holders = 0 or (all_shared = terms.shared and (terms.shared or holders < terms.most))) then\n    -- No claim waits, so it is not wanted.\n    return 'granted ' || holdfast.grant_lease(terms, p_now, p_now + (terms.ttl_ms + terms.delay_ms) * 1000);\n  end if;\n  if terms.ticket_ms > 0 then\n    select greatest(max(w.ticket) + 1, p_now) into terms.ticket from holdfast.waiter as w where w.lock = terms.lock;\n    terms.asked_us := p_now;\n    terms.till_us := p_now + terms.ticket_ms * 1000;\n    terms.since_us := p_now;\n    insert into holdfast.waiter select (terms).*;\n    update holdfast.lease as l set crowded = true where l.lock = terms.lock and l.place = 0 and not l.crowded;\n    if queue_empty then\n      perform holdfast.tell_holders(terms.lock, p_now);\n    end if;\n  end if;\n  return holdfast.refusal(terms.lock, terms.claim, p_now, p_young);\nend\n$function$";

/**
 * A claim that holds the lock and asks for it again keeps it, never for a shorter time than before, and says anew who it is.
 *
 * $1 p_terms
 * $2 p_now
 *
 * Returns its lease, or null if it holds none.
 */
export const KEEP_ON: string = "create or replace function holdfast.keep_on(p_terms holdfast.waiter, p_now bigint) returns holdfast.lease\nlanguage plpgsql set search_path = pg_catalog, pg_temp as $function$\ndeclare\n  mine holdfast.lease;\n  new_until bigint := p_now + (p_terms.ttl_ms + p_terms.delay_ms) * 1000;\nbegin\n  update holdfast.lease as l set\n    until_us = greatest(l.until_us, new_until), keep_ms = p_terms.ttl_ms + p_terms.delay_ms,\n    delay_ms = case when l.until_us > new_until then l.delay_ms else p_terms.delay_ms end,\n    inbox = case when rtrim(l.inbox, '!') = p_terms.inbox then l.inbox else p_terms.inbox end, detail = p_terms.detail\n  where l.lock = p_terms.lock and l.claim = p_terms.claim and l.until_us > p_now and not l.kept\n  returning * into mine;\n  return mine;\nend\n$function$";

/**
 * The queue has begun: tell those whom the claim waits for, and who want to know. One message for the readers in a process, which passes it on to all of them.
 *
 * $1 p_lock
 * $2 p_now
 */
export const TELL_HOLDERS: string = "create or replace function holdfast.tell_holders(p_lock bytea, p_now bigint) returns void\nlanguage plpgsql set search_path = pg_catalog, pg_temp as $function$\nbegin\n  perform holdfast.send_news(h.inbox, h.claim, 'wanted') from (\n    select distinct on (l.inbox) l.inbox, l.claim from holdfast.lease as l\n    where l.lock = p_lock and not l.kept and right(l.inbox, 1) = '!' and l.until_us > p_now and holdfast.wanted(l, p_now)\n    order by l.inbox, l.fence) as h;\nend\n$function$";

/**
 * End a lease from outside, write down who did it, and tell its holder. The caller has locked row 0.
 *
 * $1 p_lease
 * $2 p_who
 * $3 p_now
 */
export const END_BY_FORCE: string = "create or replace function holdfast.end_by_force(p_lease holdfast.lease, p_who text, p_now bigint) returns void\nlanguage plpgsql set search_path = pg_catalog, pg_temp as $function$\nbegin\n  if p_lease.place = 0 then\n    update holdfast.lease as l set until_us = 0, claim = null where l.lock = p_lease.lock and l.place = 0;\n  else\n    delete from holdfast.lease as l where l.lock = p_lease.lock and l.place = p_lease.place;\n  end if;\n  insert into holdfast.forced (lock, fence, claim, at_us, who) values (p_lease.lock, p_lease.fence, p_lease.claim, p_now, p_who)\n  on conflict (lock, fence) do nothing;\n  if not p_lease.kept then\n    perform holdfast.send_news(p_lease.inbox, p_lease.claim, 'forced');\n  end if;\nend\n$function$";

/**
 * Take the lock if the claim may hold it now, or queue it, in one step.
 *
 * $1 p_lock
 * $2 p_claim
 * $3 p_shared
 * $4 p_most
 * $5 p_ttl
 * $6 p_delay
 * $7 p_min_hold
 * $8 p_run
 * $9 p_ticket
 * $10 p_inbox
 * $11 p_detail
 * $12 p_wants
 * $13 p_quarantine
 *
 * Returns what enter() returns.
 */
export const ATTEMPT: string = "create or replace function holdfast.attempt(\n  p_lock bytea, p_claim text, p_shared boolean, p_most integer, p_ttl bigint, p_delay bigint, p_min_hold bigint, p_run integer,\n  p_ticket bigint, p_inbox text, p_detail text, p_wants boolean, p_quarantine bigint\n) returns text\nlanguage plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '3s' as $function$\ndeclare\n  row_0 holdfast.lease;\n  now_us bigint;\n  new_fence bigint;\n  new_run integer;\n  ahead bigint := 0;\n  others bigint := 0;\n  last_ticket bigint;\n  -- What is assigned to it is an expression, which costs less than a statement.\n  done text;\nbegin\n  if current_setting('transaction_isolation') <> 'read committed' or current_setting('synchronous_commit') = 'off' then\n    perform holdfast.begin_step();\n  end if;\n  select * into row_0 from holdfast.lease as l where l.lock = p_lock and l.place = 0 for update;\n  if not found then\n    row_0 := holdfast.open_lock(p_lock, true);\n  end if;\n  -- Read when the row is locked: waiting for it took time.\n  now_us := (extract(epoch from clock_timestamp()) * 1000000)::bigint;\n  if (row_0.waiting).claim is not null then\n    row_0 := holdfast.move_waiter(row_0);\n  end if;\n  if p_quarantine > 0 or (p_wants and row_0.done_us > now_us) then\n    -- Not one of the usual cases.\n  elsif row_0.until_us <= now_us and not row_0.crowded then\n    -- There is no other claim.\n    update holdfast.lease as l set\n      last = greatest(l.last + 1, now_us) + case when p_shared or p_most > 1 or l.last >= now_us then 0 else p_run - 1 end,\n      until_us = now_us + (p_ttl + p_delay) * 1000, claim = p_claim, kept = false, shared = p_shared, most = p_most,\n      fence = greatest(l.last + 1, now_us), run = case when p_shared or p_most > 1 or l.last >= now_us then 1 else p_run end,\n      since_us = now_us, keep_ms = p_ttl + p_delay, delay_ms = p_delay, min_hold_ms = p_min_hold, inbox = p_inbox, detail = p_detail\n    where l.lock = p_lock and l.place = 0 and not exists (select from holdfast.store as s where s.quarantine_ms > 0)\n    returning l.fence, l.run into new_fence, new_run;\n    if found then\n      return 'granted ' || new_fence || ' ' || new_run;\n    end if;\n  elsif row_0.until_us > now_us and not row_0.shared and row_0.most = 1 and row_0.claim <> p_claim and p_ticket > 0 and not p_shared and p_most = 1 then\n    -- One claim holds the lock, and another like it joins the queue. As enter() does it; who lets the next one in removes tickets that are over.\n    if row_0.crowded then\n      select count(*), count(*) filter (where w.till_us > now_us and w.claim <> p_claim), max(w.ticket) into ahead, others, last_ticket\n      from holdfast.waiter as w where w.lock = p_lock;\n    end if;\n    if ahead = others then\n      if row_0.crowded then\n        insert into holdfast.waiter (\n          lock, claim, ticket, asked_us, till_us, ticket_ms, shared, most, run, ttl_ms, delay_ms, min_hold_ms, since_us, wants, inbox, detail\n        ) select\n          p_lock, p_claim, greatest(last_ticket + 1, now_us), now_us, now_us + p_ticket * 1000, p_ticket, p_shared, p_most, p_run, p_ttl,\n          p_delay, p_min_hold, now_us, p_wants, p_inbox, p_detail\n        where not exists (select from holdfast.store as s where s.quarantine_ms > 0);\n      else\n        update holdfast.lease as l set waiting = row(\n          p_lock, p_claim, now_us, now_us, now_us + p_ticket * 1000, p_ticket, p_shared, p_most, p_run, p_ttl,\n          p_delay, p_min_hold, now_us, p_wants, p_inbox, p_detail\n        )::holdfast.waiter\n        where l.lock = p_lock and l.place = 0 and not exists (select from holdfast.store as s where s.quarantine_ms > 0);\n      end if;\n      if found then\n        if ahead = 0 and not row_0.kept and right(row_0.inbox, 1) = '!' then\n          -- As send_news() does it.\n          done := pg_notify(rtrim(row_0.inbox, '!'), left(row_0.claim, 8) || ' wanted ' || left(\n            encode(sha256(convert_to(row_0.claim || ' wanted', 'UTF8')), 'hex'), 24))::text;\n        end if;\n        -- A place in the queue need not survive a crash: who has lost it asks again. So the holder's release, which waits for this\n        -- transaction, need not wait for the disk. What was granted before is on disk already, or this row would still be locked.\n        done := set_config('synchronous_commit', 'off', true);\n        -- As refusal() and holding() do it, which takes longer.\n        return 'refused {\"place\":' || ahead + 1 || ',\"young\":0,\"now\":\"' || now_us || '\",\"last\":\"' || row_0.last\n          || '\",\"ahead\":' || (row_0.until_us - now_us) / 1000 + 1\n          || ',\"held\":[{\"id\":' || to_json(row_0.claim) || ',\"shared\":false,\"most\":1,\"fence\":\"' || row_0.fence\n          || '\",\"held\":' || (now_us - row_0.since_us) / 1000 || ',\"left\":' || (row_0.until_us - now_us) / 1000\n          || ',\"detail\":' || coalesce(to_json(row_0.detail)::text, 'null') || case\n            when row_0.kept then ',\"remainder\":\"minHold\"'\n            when row_0.delay_ms > 0 and row_0.until_us - row_0.delay_ms * 1000 <= now_us then ',\"remainder\":\"lockDelay\"'\n            else '' end || '}]}';\n      end if;\n    end if;\n  end if;\n  return holdfast.enter(row(\n    p_lock, p_claim, 0, 0, 0, p_ticket, p_shared, p_most, p_run, p_ttl, p_delay, p_min_hold, 0, p_wants, p_inbox, p_detail\n  )::holdfast.waiter, now_us, holdfast.young(p_quarantine, p_ttl + p_delay));\nend\n$function$";

/**
 * End a claim, held or queued, and pass the lock to the next ones in the same step.
 *
 * $1 p_lock
 * $2 p_claim
 * $3 p_min_hold
 * $4 p_quarantine
 *
 * Returns "held", "queued" or "absent".
 */
export const RELEASE: string = "create or replace function holdfast.release(p_lock bytea, p_claim text, p_min_hold bigint, p_quarantine bigint) returns text\nlanguage plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '3s' as $function$\ndeclare\n  row_0 holdfast.lease;\n  next_one holdfast.waiter;\n  now_us bigint;\n  new_fence bigint;\n  new_run integer;\n  was text;\n  more boolean;\n  news text;\n  -- In a batch, an earlier release may have granted. Those of version 1 do not flush it themselves, and this may be called in the middle of one.\n  is_first boolean := txid_current_if_assigned() is null;\nbegin\n  if current_setting('transaction_isolation') <> 'read committed' or current_setting('synchronous_commit') = 'off' then\n    perform holdfast.begin_step();\n  end if;\n  select * into row_0 from holdfast.lease as l where l.lock = p_lock and l.place = 0 for update;\n  if not found then\n    return 'absent';\n  end if;\n  -- Read when the row is locked: waiting for it took time.\n  now_us := (extract(epoch from clock_timestamp()) * 1000000)::bigint;\n  if (row_0.waiting).claim is not null then\n    -- The usual case of a lock that two take turns on: its only holder leaves, and the only waiter is like it and alive.\n    if p_min_hold = 0 and p_quarantine = 0 and row_0.claim = p_claim and row_0.until_us > now_us and not row_0.kept and not row_0.shared\n      and row_0.most = 1 and not row_0.crowded and (row_0.waiting).claim <> p_claim\n      and not ((row_0.waiting).wants and row_0.done_us > now_us)\n    then\n      next_one := row_0.waiting;\n      new_fence := greatest(row_0.last + 1, now_us);\n      new_run := case when new_fence = now_us then next_one.run else 1 end;\n      update holdfast.lease as l set\n        last = new_fence + new_run - 1, until_us = next_one.asked_us + (next_one.ttl_ms + next_one.delay_ms) * 1000,\n        claim = next_one.claim, fence = new_fence, run = new_run, since_us = now_us,\n        keep_ms = next_one.ttl_ms + next_one.delay_ms, delay_ms = next_one.delay_ms, min_hold_ms = next_one.min_hold_ms, inbox = next_one.inbox,\n        detail = next_one.detail, waiting = null\n      where l.lock = p_lock and l.place = 0 and next_one.till_us > now_us\n        and not exists (select from holdfast.store as s where s.quarantine_ms > 0);\n      if found then\n        if next_one.inbox is not null then\n          -- As send_news() does it.\n          news := ' granted ' || new_fence || ' ' || new_run || ' ';\n          news := pg_notify(next_one.inbox, left(next_one.claim, 8) || news || left(\n            encode(sha256(convert_to(next_one.claim || rtrim(news), 'UTF8')), 'hex'), 24))::text;\n        end if;\n        return 'held';\n      end if;\n    end if;\n    row_0 := holdfast.move_waiter(row_0);\n  end if;\n  -- The usual case: there is no other claim, and no minHold.\n  if p_min_hold = 0 and not row_0.crowded and row_0.claim = p_claim and row_0.until_us > now_us and not row_0.kept then\n    update holdfast.lease as l set until_us = 0, claim = null where l.lock = p_lock and l.place = 0;\n    -- No claim waits for it, so this need not wait for the disk: a crash that forgets it only leaves the lock taken until the lease would have\n    -- ended. The next claim that gets the lock before that has a commit that is flushed, and this one with it. An end that is far away is flushed.\n    if is_first and row_0.until_us - now_us <= 60000000 then\n      news := set_config('synchronous_commit', 'off', true);\n    end if;\n    return 'held';\n  end if;\n  -- The usual case of a lock that is wanted by many: its only holder leaves, and the next waiter is like it and alive. As promote()\n  -- and grant_lease() do it. Beside such a holder there are no rows but those of leases that are over.\n  if p_min_hold = 0 and p_quarantine = 0 and row_0.claim = p_claim and row_0.until_us > now_us and not row_0.kept\n    and not row_0.shared and row_0.most = 1\n  then\n    delete from holdfast.waiter as w\n    where w.lock = p_lock and w.ticket = (select min(f.ticket) from holdfast.waiter as f where f.lock = p_lock)\n      and w.till_us > now_us and not w.shared and w.most = 1\n      and not exists (select from holdfast.store as s where s.quarantine_ms > 0)\n    returning * into next_one;\n    if found then\n      new_fence := greatest(row_0.last + 1, now_us);\n      new_run := case when new_fence = now_us then next_one.run else 1 end;\n      update holdfast.lease as l set\n        last = new_fence + new_run - 1, until_us = next_one.asked_us + (next_one.ttl_ms + next_one.delay_ms) * 1000,\n        claim = next_one.claim, fence = new_fence, run = new_run, since_us = now_us,\n        keep_ms = next_one.ttl_ms + next_one.delay_ms, delay_ms = next_one.delay_ms, min_hold_ms = next_one.min_hold_ms, inbox = next_one.inbox,\n        detail = next_one.detail,\n        crowded = exists (select from holdfast.waiter as w where w.lock = p_lock)\n          or exists (select from holdfast.lease as o where o.lock = p_lock and o.place > 0)\n      where l.lock = p_lock and l.place = 0\n      returning l.crowded into more;\n      if next_one.inbox is not null then\n        -- As send_news() does it.\n        news := ' granted ' || new_fence || ' ' || new_run || case when more then ' w ' else ' ' end;\n        news := pg_notify(next_one.inbox, left(next_one.claim, 8) || news || left(\n          encode(sha256(convert_to(next_one.claim || rtrim(news), 'UTF8')), 'hex'), 24))::text;\n      end if;\n      return 'held';\n    end if;\n  end if;\n  was := holdfast.leave(p_lock, p_claim, p_min_hold, now_us);\n  if row_0.crowded then\n    perform holdfast.promote(p_lock, now_us, '', holdfast.young(p_quarantine, 0));\n  end if;\n  return was;\nend\n$function$";

/**
 * End a claim and keep the outcome of its work, if it holds by the lease under which that was done. Those who wait for an outcome leave the
 * queue and have news, one message for each process; the others come next, as after a release.
 *
 * $1 p_lock
 * $2 p_claim
 * $3 p_min_hold
 * $4 p_quarantine
 * $5 p_fence
 * $6 p_keep
 * $7 p_value
 *
 * Returns "held" also if the outcome was kept before; "queued"; or "absent".
 */
export const FINISH: string = "create or replace function holdfast.finish(\n  p_lock bytea, p_claim text, p_min_hold bigint, p_quarantine bigint, p_fence bigint, p_keep bigint, p_value bytea\n) returns text\nlanguage plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '3s' as $function$\ndeclare\n  row_0 holdfast.lease;\n  mine holdfast.lease;\n  now_us bigint;\n  was text;\nbegin\n  perform holdfast.begin_step();\n  row_0 := holdfast.open_lock(p_lock, false);\n  if row_0.lock is null then\n    return 'absent';\n  end if;\n  now_us := holdfast.now_us();\n  select * into mine from holdfast.lease as l\n  where l.lock = p_lock and l.claim = p_claim and l.fence = p_fence and l.until_us > now_us and not l.kept;\n  if found then\n    insert into holdfast.outcome as o (lock, claim, fence, kept_us, till_us, detail, value)\n    values (p_lock, p_claim, p_fence, now_us, now_us + p_keep * 1000, mine.detail, p_value)\n    on conflict (lock) do update set\n      claim = excluded.claim, fence = excluded.fence, kept_us = excluded.kept_us, till_us = excluded.till_us,\n      detail = excluded.detail, value = excluded.value;\n    update holdfast.lease as l set done_us = now_us + p_keep * 1000 where l.lock = p_lock and l.place = 0;\n    perform holdfast.send_news(n.inbox, n.claim, 'outcome') from (\n      select w.inbox, min(w.claim) as claim from holdfast.waiter as w\n      where w.lock = p_lock and w.wants and w.inbox is not null group by w.inbox) as n;\n    delete from holdfast.waiter as w where w.lock = p_lock and w.wants;\n  end if;\n  was := holdfast.leave(p_lock, p_claim, p_min_hold, now_us);\n  if row_0.crowded then\n    perform holdfast.promote(p_lock, now_us, '', holdfast.young(p_quarantine, 0));\n  end if;\n  if mine.lock is not null or exists (\n    select from holdfast.outcome as o where o.lock = p_lock and o.claim = p_claim and o.fence = p_fence and o.till_us > now_us)\n  then\n    return 'held';\n  end if;\n  -- What it held was another lease than that of its work.\n  return case when was = 'held' then 'absent' else was end;\nend\n$function$";

/**
 * End one claim and attempt another on the same lock: a process that has used up its run of fences gets the next run at once if no
 * other claim waits, and a place in the queue otherwise.
 *
 * $1 p_held
 * $2 p_held_min_hold
 * $3 p_lock
 * $4 p_claim
 * $5 p_shared
 * $6 p_most
 * $7 p_ttl
 * $8 p_delay
 * $9 p_min_hold
 * $10 p_run
 * $11 p_ticket
 * $12 p_inbox
 * $13 p_detail
 * $14 p_wants
 * $15 p_quarantine
 *
 * Returns what release() returns, a space, and what enter() returns.
 */
export const SWAP: string = "create or replace function holdfast.swap(\n  p_held text, p_held_min_hold bigint, p_lock bytea, p_claim text, p_shared boolean, p_most integer, p_ttl bigint, p_delay bigint,\n  p_min_hold bigint, p_run integer, p_ticket bigint, p_inbox text, p_detail text, p_wants boolean, p_quarantine bigint\n) returns text\nlanguage plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '3s' as $function$\ndeclare\n  now_us bigint;\n  young bigint;\n  was text;\nbegin\n  perform holdfast.begin_step();\n  perform holdfast.open_lock(p_lock, true);\n  young := holdfast.young(p_quarantine, p_ttl + p_delay);\n  now_us := holdfast.now_us();\n  was := holdfast.leave(p_lock, p_held, p_held_min_hold, now_us);\n  return was || ' ' || holdfast.enter(row(\n    p_lock, p_claim, 0, 0, 0, p_ticket, p_shared, p_most, p_run, p_ttl, p_delay, p_min_hold, 0, p_wants, p_inbox, p_detail\n  )::holdfast.waiter, now_us, young);\nend\n$function$";

/**
 * End many claims in one step, each as release() does. The locks are gone through in the order of their names, so that two such steps
 * never wait for each other. With p_wait false, a lock with a row that is needed and that another transaction has locked is passed over. With
 * p_wait true it is waited for, but all of them together for 3 s: what has to wait longer is passed over, and undoes nothing of the others.
 *
 * $1 p_locks
 * $2 p_claims
 * $3 p_min_holds
 * $4 p_quarantine
 * $5 p_wait
 *
 * Returns a letter for each claim: h held, q queued, a absent, b passed over.
 */
export const RELEASE_MANY: string = "create or replace function holdfast.release_many(\n  p_locks bytea[], p_claims text[], p_min_holds bigint[], p_quarantine bigint, p_wait boolean\n) returns text\nlanguage plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '3s' as $function$\ndeclare\n  one record;\n  row_0 holdfast.lease;\n  now_us bigint := holdfast.now_us();\n  patient boolean := p_wait;\n  flushed text;\n  letters text[] := array_fill('b'::text, array[cardinality(p_locks)]);\nbegin\n  perform holdfast.begin_step();\n  flushed := current_setting('synchronous_commit');\n  for one in\n    select a.n, a.lock, a.claim, a.min_hold from unnest(p_locks, p_claims, p_min_holds) with ordinality as a (lock, claim, min_hold, n)\n    order by a.lock, a.n\n  loop\n    if patient then\n      begin\n        letters[one.n] := left(holdfast.release(one.lock, one.claim, one.min_hold, p_quarantine), 1);\n      exception when lock_not_available then\n        patient := false;\n      end;\n      patient := patient and holdfast.now_us() - now_us < 3000000;\n      continue;\n    end if;\n    select * into row_0 from holdfast.lease as l where l.lock = one.lock and l.place = 0 for update skip locked;\n    continue when not found;\n    if row_0.crowded then\n      -- Those that a release may remove: its own, and those that are over.\n      perform l.place from holdfast.lease as l\n      where l.lock = one.lock and l.place > 0 and (l.claim = one.claim or l.until_us <= holdfast.now_us())\n      except select f.place from (\n        select l.place from holdfast.lease as l\n        where l.lock = one.lock and l.place > 0 and (l.claim = one.claim or l.until_us <= holdfast.now_us()) for update skip locked) as f;\n      continue when found;\n    end if;\n    letters[one.n] := left(holdfast.release(one.lock, one.claim, one.min_hold, p_quarantine), 1);\n  end loop;\n  -- A release that no claim waits for turns it off, for the whole transaction: others in it may have granted.\n  perform set_config('synchronous_commit', flushed, true);\n  return array_to_string(letters, '');\nend\n$function$";

/**
 * Renew leases, many in one step, each with its own answer. The rows are locked in the order of their keys, so that two such steps
 * never wait for each other. p_wait: how long a row that another transaction has locked is waited for, in ms; with 0 it is passed over.
 *
 * $1 p_locks
 * $2 p_claims
 * $3 p_fences
 * $4 p_ttl
 * $5 p_delay
 * $6 p_details
 * $7 p_wait
 *
 * p_details: what those claims say of themselves that have something new to say, by their number.
 * Returns a letter for each claim: y renewed, w renewed and wanted, n not held, o held with another fence, b passed over.
 */
export const RENEW: string = "create or replace function holdfast.renew(\n  p_locks bytea[], p_claims text[], p_fences bigint[], p_ttl bigint, p_delay bigint, p_details jsonb, p_wait bigint\n) returns text\nlanguage plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '3s' as $function$\ndeclare\n  now_us bigint;\n  new_until bigint;\n  numbers bigint[];\n  locks bytea[];\n  places bigint[];\n  answer text;\nbegin\n  perform holdfast.begin_step();\n  perform holdfast.young(0, p_ttl + p_delay);\n  if p_wait > 0 then\n    perform set_config('lock_timeout', p_wait::text, true);\n    select array_agg(m.n), array_agg(m.lock), array_agg(m.place) into numbers, locks, places from (\n      select a.n, l.lock, l.place from unnest(p_locks, p_claims) with ordinality as a (lock, claim, n)\n      join holdfast.lease as l on l.lock = a.lock and l.claim = a.claim order by l.lock, l.place for update of l) as m;\n  else\n    select array_agg(m.n), array_agg(m.lock), array_agg(m.place) into numbers, locks, places from (\n      select a.n, l.lock, l.place from unnest(p_locks, p_claims) with ordinality as a (lock, claim, n)\n      join holdfast.lease as l on l.lock = a.lock and l.claim = a.claim order by l.lock, l.place for update of l skip locked) as m;\n  end if;\n  -- Read when the rows are locked: a lease that ended meanwhile is not renewed.\n  now_us := holdfast.now_us();\n  new_until := now_us + (p_ttl + p_delay) * 1000;\n  with mine as (\n    select m.n, l.lock, l.place, l.fence = coalesce(p_fences[m.n], l.fence) as same,\n      -- Row 0 of a lock that is not crowded knows that no claim waits.\n      (l.crowded or l.place > 0 or (l.waiting).claim is not null) and holdfast.wanted(l, now_us) as wanted\n    from unnest(numbers, locks, places) as m (n, lock, place)\n    join holdfast.lease as l on l.lock = m.lock and l.place = m.place\n    where l.claim = p_claims[m.n] and l.until_us > now_us and not l.kept\n  ), renewed as (\n    update holdfast.lease as l set\n      until_us = greatest(l.until_us, new_until), keep_ms = p_ttl + p_delay,\n      delay_ms = case when l.until_us > new_until then l.delay_ms else p_delay end,\n      detail = coalesce(p_details ->> m.n::text, l.detail)\n    from mine as m\n    where l.lock = m.lock and l.place = m.place and m.same\n  )\n  select string_agg(case\n    when m.same and m.wanted then 'w'\n    when m.same then 'y'\n    when m.n is not null then 'o'\n    when p_wait > 0 or a.n = any (numbers) or not exists (\n      select from holdfast.lease as l where l.lock = a.lock and l.claim = a.claim and l.until_us > now_us and not l.kept) then 'n'\n    else 'b' end, '' order by a.n) into answer\n  from unnest(p_locks, p_claims) with ordinality as a (lock, claim, n) left join mine as m on m.n = a.n;\n  return answer;\nend\n$function$";

/**
 * Heartbeats of waiters: keep their tickets alive, say what became of them, and grant to the next if a dead holder's time is over.
 * A lock that another transaction has locked is passed over.
 *
 * $1 p_locks
 * $2 p_claims
 * $3 p_inbox
 * $4 p_quarantine
 *
 * Returns JSON, for each claim: what run() returns, "queued <last fence> <ms until the first lease is over>", "busy", or "absent".
 */
export const BEAT: string = "create or replace function holdfast.beat(p_locks bytea[], p_claims text[], p_inbox text, p_quarantine bigint) returns text\nlanguage plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '3s' as $function$\ndeclare\n  asked record;\n  row_0 holdfast.lease;\n  mine holdfast.lease;\n  now_us bigint;\n  young bigint;\n  answer text;\n  answers text[] := array_fill('absent'::text, array[cardinality(p_claims)]);\nbegin\n  perform holdfast.begin_step();\n  young := holdfast.young(p_quarantine, 0);\n  for asked in\n    select a.lock, a.claim, a.n from unnest(p_locks, p_claims) with ordinality as a (lock, claim, n) order by a.lock, a.claim\n  loop\n    select * into row_0 from holdfast.lease as l where l.lock = asked.lock and l.place = 0 for update skip locked;\n    if not found then\n      if exists (select from holdfast.lease as l where l.lock = asked.lock and l.place = 0) then\n        answers[asked.n] := 'busy';\n      end if;\n      continue;\n    end if;\n    if (row_0.waiting).claim is not null then\n      row_0 := holdfast.move_waiter(row_0);\n    end if;\n    now_us := holdfast.now_us();\n    update holdfast.waiter as w set asked_us = now_us, till_us = now_us + w.ticket_ms * 1000, inbox = p_inbox\n    where w.lock = asked.lock and w.claim = asked.claim;\n    if found then\n      perform holdfast.promote(asked.lock, now_us, asked.claim, young);\n    end if;\n    update holdfast.lease as l set until_us = greatest(l.until_us, now_us + l.keep_ms * 1000),\n      inbox = case when rtrim(l.inbox, '!') = p_inbox then l.inbox else p_inbox end\n    where l.lock = asked.lock and l.claim = asked.claim and l.until_us > now_us and not l.kept\n    returning * into mine;\n    if found then\n      answers[asked.n] := holdfast.run(mine, now_us);\n    elsif exists (select from holdfast.waiter as w where w.lock = asked.lock and w.claim = asked.claim) then\n      select 'queued ' || max(l.last) || ' ' || greatest(young, coalesce((min(l.until_us) filter (where l.until_us > now_us) - now_us) / 1000 + 1, 0))\n      into answer from holdfast.lease as l where l.lock = asked.lock;\n      answers[asked.n] := answer;\n    end if;\n  end loop;\n  return array_to_json(answers)::text;\nend\n$function$";

/**
 * End the lease whose run of fences contains the given one, tell its holder, and grant to the next ones.
 *
 * $1 p_lock
 * $2 p_fence
 * $3 p_who
 * $4 p_quarantine
 *
 * Returns "yes", or "no" if no lease has that fence.
 */
export const FORCE_RELEASE: string = "create or replace function holdfast.force_release(p_lock bytea, p_fence bigint, p_who text, p_quarantine bigint) returns text\nlanguage plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '3s' as $function$\ndeclare\n  row_0 holdfast.lease;\n  hit holdfast.lease;\n  now_us bigint;\nbegin\n  perform holdfast.begin_step();\n  row_0 := holdfast.open_lock(p_lock, false);\n  if row_0.lock is null then\n    return 'no';\n  end if;\n  now_us := holdfast.now_us();\n  select * into hit from holdfast.lease as l\n  where l.lock = p_lock and l.until_us > now_us and p_fence between l.fence and l.fence + l.run - 1;\n  if not found then\n    return 'no';\n  end if;\n  perform holdfast.end_by_force(hit, p_who, now_us);\n  perform holdfast.promote(p_lock, now_us, '', holdfast.young(p_quarantine, 0));\n  return 'yes';\nend\n$function$";

/**
 * End all leases of a lock by force and grant it to the claim, before all who wait. A claim that holds it keeps it, and ends nothing.
 *
 * $1 p_who
 * $2 p_lock
 * $3 p_claim
 * $4 p_shared
 * $5 p_most
 * $6 p_ttl
 * $7 p_delay
 * $8 p_min_hold
 * $9 p_run
 * $10 p_ticket
 * $11 p_inbox
 * $12 p_detail
 * $13 p_wants
 * $14 p_quarantine
 *
 * Returns what enter() returns, except outcomes.
 */
export const STEAL: string = "create or replace function holdfast.steal(\n  p_who text, p_lock bytea, p_claim text, p_shared boolean, p_most integer, p_ttl bigint, p_delay bigint, p_min_hold bigint,\n  p_run integer, p_ticket bigint, p_inbox text, p_detail text, p_wants boolean, p_quarantine bigint\n) returns text\nlanguage plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '3s' as $function$\ndeclare\n  terms holdfast.waiter;\n  mine holdfast.lease;\n  young bigint;\n  now_us bigint;\n  known_limit integer;\nbegin\n  perform holdfast.begin_step();\n  perform holdfast.open_lock(p_lock, true);\n  young := holdfast.young(p_quarantine, p_ttl + p_delay);\n  now_us := holdfast.now_us();\n  terms := row(\n    p_lock, p_claim, 0, 0, 0, p_ticket, p_shared, p_most, p_run, p_ttl, p_delay, p_min_hold, 0, p_wants, p_inbox, p_detail\n  )::holdfast.waiter;\n  mine := holdfast.keep_on(terms, now_us);\n  if mine.lock is not null then\n    return holdfast.run(mine, now_us);\n  end if;\n  delete from holdfast.waiter as w where w.lock = p_lock and w.claim = p_claim;\n  if young > 0 then\n    return holdfast.refusal(p_lock, p_claim, now_us, young);\n  end if;\n  -- Holders do not count, because they end; those who wait do.\n  select w.most into known_limit from holdfast.waiter as w\n  where w.lock = p_lock and not w.shared and w.till_us > now_us order by w.ticket limit 1;\n  if not p_shared and known_limit <> p_most then\n    return 'limit ' || known_limit;\n  end if;\n  perform holdfast.end_by_force(h.lease, p_who, now_us)\n  from (select l as lease from holdfast.lease as l where l.lock = p_lock and l.until_us > now_us order by l.place) as h;\n  perform holdfast.grant_lease(terms, now_us, now_us + (p_ttl + p_delay) * 1000);\n  -- Who waits may hold beside the thief: readers beside a reader, or others up to the limit.\n  perform holdfast.promote(p_lock, now_us, '', 0);\n  select * into mine from holdfast.lease as l where l.lock = p_lock and l.claim = p_claim and l.until_us > now_us and not l.kept;\n  return holdfast.run(mine, now_us);\nend\n$function$";

/**
 * Remove the outcome of the lease whose run begins with the given fence, and nothing else.
 *
 * $1 p_lock
 * $2 p_fence
 *
 * Returns "yes", or "no" if there is none.
 */
export const FORGET: string = "create or replace function holdfast.forget(p_lock bytea, p_fence bigint) returns text\nlanguage plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '3s' as $function$\nbegin\n  perform holdfast.begin_step();\n  perform holdfast.open_lock(p_lock, false);\n  delete from holdfast.outcome as o where o.lock = p_lock and o.fence = p_fence and o.till_us > holdfast.now_us();\n  if not found then\n    return 'no';\n  end if;\n  update holdfast.lease as l set done_us = 0 where l.lock = p_lock and l.place = 0;\n  return 'yes';\nend\n$function$";

/**
 * The holders of these leases want to know from now on when a claim begins to wait. A lock that another transaction has locked is passed over.
 *
 * $1 p_locks
 * $2 p_claims
 * $3 p_inbox
 *
 * Returns a letter for each claim: w wanted already, y not wanted yet (a message will say it), n not held, b passed over.
 */
export const EXPECT_WANTED: string = "create or replace function holdfast.expect_wanted(p_locks bytea[], p_claims text[], p_inbox text) returns text\nlanguage plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '3s' as $function$\ndeclare\n  asked record;\n  mine holdfast.lease;\n  now_us bigint;\n  letters text[] := array_fill('b'::text, array[cardinality(p_claims)]);\nbegin\n  perform holdfast.begin_step();\n  for asked in\n    select a.lock, a.claim, a.n from unnest(p_locks, p_claims) with ordinality as a (lock, claim, n) order by a.lock, a.n\n  loop\n    -- Who begins to wait has locked row 0: it came before, and is seen now, or it finds the mark.\n    perform from holdfast.lease as l where l.lock = asked.lock and l.place = 0 for update skip locked;\n    continue when not found and exists (select from holdfast.lease as l where l.lock = asked.lock and l.place = 0);\n    now_us := holdfast.now_us();\n    update holdfast.lease as l set inbox = p_inbox || '!'\n    where l.lock = asked.lock and l.claim = asked.claim and l.until_us > now_us and not l.kept\n    returning * into mine;\n    letters[asked.n] := case when mine.lock is null then 'n' when holdfast.wanted(mine, now_us) then 'w' else 'y' end;\n  end loop;\n  -- A hint need not survive a crash. Nothing was granted here.\n  perform set_config('synchronous_commit', 'off', true);\n  return array_to_string(letters, '');\nend\n$function$";

/**
 * Which of these leases another claim waits for: for processes that no message reaches.
 *
 * $1 p_locks
 * $2 p_claims
 *
 * Returns a letter for each claim: w wanted, y not wanted, n not held.
 */
export const LOOK_WANTED: string = "create or replace function holdfast.look_wanted(p_locks bytea[], p_claims text[]) returns text\nlanguage sql stable security definer set search_path = pg_catalog, pg_temp as $function$\n  -- Read once, because the clock is volatile. Before Postgres 12 there is no word for it.\n  with at as (select (extract(epoch from clock_timestamp()) * 1000000)::bigint as us)\n  select string_agg(coalesce((\n    select case when holdfast.wanted(l, at.us) then 'w' else 'y' end from holdfast.lease as l\n    where l.lock = a.lock and l.claim = a.claim and l.until_us > at.us and not l.kept), 'n'), '' order by a.n)\n  from unnest(p_locks, p_claims) with ordinality as a (lock, claim, n), at\n$function$";

/**
 * Who holds, who waits, and which leases were ended by force, of all locks in a range of names, at one instant.
 *
 * $1 p_from
 * $2 p_to
 *
 * Returns JSON, one text for each.
 */
export const LOOK: string = "create or replace function holdfast.look(p_from bytea, p_to bytea) returns setof text\nlanguage sql stable security definer set search_path = pg_catalog, pg_temp as $function$\n  -- Read once, because the clock is volatile. Before Postgres 12 there is no word for it.\n  with at as (select (extract(epoch from clock_timestamp()) * 1000000)::bigint as us)\n  select holdfast.holding(l, at.us)::text from holdfast.lease as l, at\n  where l.lock >= p_from and (p_to is null or l.lock < p_to) and l.until_us > at.us\n  union all\n  select json_build_object(\n    'kind', 'waiting', 'lock', encode(w.lock, 'hex'), 'id', w.claim, 'shared', w.shared, 'most', w.most,\n    'waiting', (at.us - w.since_us) / 1000, 'place', row_number() over (partition by w.lock order by w.ticket),\n    'since', w.since_us::text, 'detail', w.detail)::text\n  from (\n    select q.lock, q.claim, q.shared, q.most, q.ticket, q.since_us, q.till_us, q.detail from holdfast.waiter as q\n    union all\n    select\n      l.lock, (l.waiting).claim, (l.waiting).shared, (l.waiting).most, (l.waiting).ticket, (l.waiting).since_us, (l.waiting).till_us,\n      (l.waiting).detail\n    from holdfast.lease as l where l.place = 0 and (l.waiting).claim is not null\n  ) as w, at\n  where w.lock >= p_from and (p_to is null or w.lock < p_to) and w.till_us > at.us\n  union all\n  select json_build_object(\n    'kind', 'forced', 'lock', encode(f.lock, 'hex'), 'fence', f.fence::text, 'ago', (at.us - f.at_us) / 1000, 'who', f.who)::text\n  from holdfast.forced as f, at\n  where f.lock >= p_from and (p_to is null or f.lock < p_to) and f.at_us > at.us - 3600 * 1000000::bigint\n$function$";

/**
 * All that is known of one lock, at one instant of the store. It changes nothing.
 *
 * $1 p_lock
 * $2 p_quarantine
 *
 * Returns JSON, one text for each: what look() returns, the outcome, and for how many ms nothing is granted.
 */
export const INSPECT: string = "create or replace function holdfast.inspect(p_lock bytea, p_quarantine bigint) returns setof text\nlanguage sql stable security definer set search_path = pg_catalog, pg_temp as $function$\n  -- The first name behind it, in the order of bytes.\n  select l.shown from holdfast.look(p_lock, p_lock || '\\x00'::bytea) as l (shown)\n  union all\n  select o.shown from holdfast.kept_outcome(p_lock, holdfast.now_us()) as o (shown) where o.shown is not null\n  union all\n  select json_build_object('kind', 'young', 'lock', encode(p_lock, 'hex'), 'left', y.ms)::text\n  from (\n    -- As young() counts it.\n    select greatest(s.quarantine_ms, p_quarantine) + case\n      when s.timeline = left(pg_walfile_name(pg_current_wal_lsn()), 8) then (s.changed_us - holdfast.now_us() + 999) / 1000\n      else 0 end as ms\n    from holdfast.store as s where greatest(s.quarantine_ms, p_quarantine) > 0 and not pg_is_in_recovery()\n  ) as y where y.ms > 0\n$function$";

/**
 * Who ended claims by force, and why.
 *
 * $1 p_locks
 * $2 p_claims
 *
 * Returns JSON: for each claim that was, its id and what the one who did it said.
 */
export const WHY: string = "create or replace function holdfast.why(p_locks bytea[], p_claims text[]) returns text\nlanguage sql volatile security definer set search_path = pg_catalog, pg_temp as $function$\n  select coalesce(json_object_agg(f.claim, f.who), '{}')::text\n  from unnest(p_locks, p_claims) as a (lock, claim) join holdfast.forced as f on f.lock = a.lock and f.claim = a.claim\n$function$";

/**
 * Remove what is over, in the next rows from p_from on: tickets, leases, outcomes, records of force, and rows of locks that were not used for
 * p_idle ms. What another transaction has locked is left. The floor keeps fences rising when a lock's row is made again.
 *
 * $1 p_from
 * $2 p_rows
 * $3 p_idle
 *
 * Returns the name at which to go on, in hex: "" after the last.
 */
export const CLEAN: string = "create or replace function holdfast.clean(p_from bytea, p_rows integer, p_idle bigint) returns text\nlanguage plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '3s' as $function$\ndeclare\n  now_us bigint := holdfast.now_us();\n  candidate record;\n  row_0 holdfast.lease;\n  seen integer := 0;\n  next_from bytea := ''::bytea;\n  greatest_fence bigint := 0;\nbegin\n  perform holdfast.begin_step();\n  delete from holdfast.forced as f where f.ctid = any (array(\n    select o.ctid from holdfast.forced as o where o.at_us < now_us - 3600 * 1000000::bigint limit p_rows for update skip locked));\n  for candidate in\n    select l.lock, l.place, greatest(l.until_us, l.since_us) as used_us, l.done_us from holdfast.lease as l\n    where l.lock >= p_from order by l.lock, l.place limit p_rows\n  loop\n    seen := seen + 1;\n    next_from := candidate.lock;\n    continue when candidate.place > 0 or candidate.done_us > now_us\n      or (candidate.done_us = 0 and candidate.used_us > now_us - p_idle * 1000);\n    select * into row_0 from holdfast.lease as l where l.lock = candidate.lock and l.place = 0 for update skip locked;\n    continue when not found or row_0.done_us > now_us;\n    if row_0.done_us > 0 then\n      delete from holdfast.outcome as o where o.lock = candidate.lock;\n      update holdfast.lease as l set done_us = 0 where l.lock = candidate.lock and l.place = 0;\n    end if;\n    continue when greatest(row_0.until_us, row_0.since_us, row_0.done_us, (row_0.waiting).till_us) > now_us - p_idle * 1000;\n    if row_0.crowded then\n      delete from holdfast.waiter as w where w.lock = candidate.lock and w.till_us <= now_us - p_idle * 1000;\n      delete from holdfast.lease as l where l.lock = candidate.lock and l.place > 0 and l.until_us <= now_us;\n      continue when exists (select from holdfast.waiter as w where w.lock = candidate.lock)\n        or exists (select from holdfast.lease as l where l.lock = candidate.lock and l.place > 0);\n    end if;\n    delete from holdfast.lease as l where l.lock = candidate.lock and l.place = 0;\n    greatest_fence := greatest(greatest_fence, row_0.last);\n  end loop;\n  if greatest_fence > 0 then\n    update holdfast.store as s set floor = greatest_fence where s.floor < greatest_fence;\n  end if;\n  -- The last name again, unless it was the only one: more of its rows may follow.\n  return case when seen < p_rows then '' when next_from = p_from then encode(next_from || '\\x00'::bytea, 'hex') else encode(next_from, 'hex') end;\nend\n$function$";

/**
 * What a process must know before it begins, and doctor wants to know.
 *
 * Returns JSON.
 */
export const STORE_FACTS: string = "create or replace function holdfast.store_facts() returns text\nlanguage sql volatile security definer set search_path = pg_catalog, pg_temp as $function$\n  select json_build_object(\n    'version', s.version, 'timeline', s.timeline, 'changed', s.changed_us, 'quarantine', s.quarantine_ms, 'floor', s.floor::text)::text\n  from holdfast.store as s\n$function$";

/**
 * An operator says that no lease which this server may have lost is still alive.
 */
export const END_QUARANTINE: string = "create or replace function holdfast.end_quarantine() returns text\nlanguage sql volatile security definer set search_path = pg_catalog, pg_temp as $function$\n  update holdfast.store as s set\n    changed_us = 0, timeline = left(pg_walfile_name(pg_current_wal_lsn()), 8)\n  returning 'ended'\n$function$";

/**
 * Run a statement and commit, all in one step. In a transaction the server refuses the commit (2D000), so an answer is never one that may
 * still be rolled back. It runs with the rights of the caller.
 *
 * $1 p_statement
 * $2 p_values
 *
 * p_statement: one that returns one text, with p_values as its $1.
 */
export const ALONE: string = "create or replace procedure holdfast.alone(p_statement text, p_values text[], inout answer text)\nlanguage plpgsql as $function$\nbegin\n  execute p_statement into answer using p_values;\n  commit;\nend\n$function$";

/**
 * Every role may call a new function unless this is taken back. The role that made these may call them, and who it grants it to.
 */
export const RIGHTS: string = "do $function$\ndeclare\n  made record;\nbegin\n  for made in\n    select p.oid::pg_catalog.regprocedure as signature\n    from pg_catalog.pg_proc as p join pg_catalog.pg_namespace as n on n.oid = p.pronamespace\n    where n.nspname = 'holdfast' and p.proname in (\n      'now_us', 'begin_step', 'open_lock', 'move_waiter', 'young', 'grant_lease', 'send_news', 'wanted', 'promote', 'leave', 'run', 'holding', 'refusal',\n      'kept_outcome', 'enter', 'keep_on', 'tell_holders', 'end_by_force', 'attempt', 'release', 'release_many', 'finish', 'swap', 'renew', 'beat',\n      'force_release', 'steal', 'forget', 'look_wanted', 'expect_wanted', 'look', 'inspect', 'why', 'clean', 'store_facts', 'end_quarantine')\n  loop\n    execute pg_catalog.format('revoke all on function %s from public', made.signature);\n  end loop;\n  revoke all on procedure holdfast.alone(text, text[], text) from public;\nend\n$function$";

/**
 * Run a statement outside of any transaction, or not at all.
 *
 * $1 statement
 * $2 values
 */
export const CALL_ALONE: string = "call holdfast.alone($1::text, $2::text::text[], null)";

/**
 * Take the lock, or queue. Parameters and answers are text, whatever the types that a client library knows.
 *
 * $1 lock
 * $2 claim
 * $3 shared
 * $4 most
 * $5 ttl
 * $6 delay
 * $7 minHold
 * $8 run
 * $9 ticket
 * $10 inbox
 * $11 detail
 * $12 wants
 * $13 quarantine
 */
export const CALL_ATTEMPT: string = "select holdfast.attempt(\n  $1::text::bytea, $2::text, $3::text::boolean, $4::text::integer, $5::text::bigint, $6::text::bigint, $7::text::bigint,\n  $8::text::integer, $9::text::bigint, $10::text, $11::text, $12::text::boolean,\n  $13::text::bigint) as answer";

/**
 * Heartbeats of waiters.
 *
 * $1 locks
 * $2 claims
 * $3 inbox
 * $4 quarantine
 */
export const CALL_BEAT: string = "select holdfast.beat($1::text::bytea[], $2::text::text[], $3::text, $4::text::bigint) as answer";

/**
 * Remove what is over.
 *
 * $1 from
 * $2 rows
 * $3 idle
 */
export const CALL_CLEAN: string = "select holdfast.clean($1::text::bytea, $2::text::integer, $3::text::bigint) as answer";

/**
 * End the quarantine.
 *
 * $1 none
 */
export const CALL_END_QUARANTINE: string = "select holdfast.end_quarantine() as answer where $1::text is null";

/**
 * Who holds these wants to know when a claim begins to wait.
 *
 * $1 locks
 * $2 claims
 * $3 inbox
 */
export const CALL_EXPECT_WANTED: string = "select holdfast.expect_wanted($1::text::bytea[], $2::text::text[], $3::text) as answer";

/**
 * End a claim and keep its outcome.
 *
 * $1 lock
 * $2 claim
 * $3 minHold
 * $4 quarantine
 * $5 fence
 * $6 keep
 * $7 value
 */
export const CALL_FINISH: string = "select holdfast.finish(\n  $1::text::bytea, $2::text, $3::text::bigint, $4::text::bigint, $5::text::bigint, $6::text::bigint, $7::text::bytea) as answer";

/**
 * End a lease by its fence.
 *
 * $1 lock
 * $2 fence
 * $3 who
 * $4 quarantine
 */
export const CALL_FORCE_RELEASE: string = "select holdfast.force_release($1::text::bytea, $2::text::bigint, $3::text, $4::text::bigint) as answer";

/**
 * Remove an outcome.
 *
 * $1 lock
 * $2 fence
 */
export const CALL_FORGET: string = "select holdfast.forget($1::text::bytea, $2::text::bigint) as answer";

/**
 * All that is known of one lock.
 *
 * $1 lock
 * $2 quarantine
 */
export const CALL_INSPECT: string = "select answer from holdfast.inspect($1::text::bytea, $2::text::bigint) as answer";

/**
 * Which leases are wanted.
 *
 * $1 locks
 * $2 claims
 */
export const CALL_LOOK_WANTED: string = "select holdfast.look_wanted($1::text::bytea[], $2::text::text[]) as answer";

/**
 * Who holds and who waits.
 *
 * $1 from
 * $2 to
 */
export const CALL_LOOK: string = "select answer from holdfast.look($1::text::bytea, $2::text::bytea) as answer";

/**
 * End many claims.
 *
 * $1 locks
 * $2 claims
 * $3 minHolds
 * $4 quarantine
 * $5 wait
 */
export const CALL_RELEASE_MANY: string = "select holdfast.release_many($1::text::bytea[], $2::text::text[], $3::text::bigint[], $4::text::bigint, $5::text::boolean) as answer";

/**
 * End a claim.
 *
 * $1 lock
 * $2 claim
 * $3 minHold
 * $4 quarantine
 */
export const CALL_RELEASE: string = "select holdfast.release($1::text::bytea, $2::text, $3::text::bigint, $4::text::bigint) as answer";

/**
 * Renew leases.
 *
 * $1 locks
 * $2 claims
 * $3 fences
 * $4 ttl
 * $5 delay
 * $6 details
 * $7 wait
 */
export const CALL_RENEW: string = "select holdfast.renew(\n  $1::text::bytea[], $2::text::text[], $3::text::bigint[], $4::text::bigint, $5::text::bigint, $6::text::jsonb, $7::text::bigint) as answer";

/**
 * Take the lock from all who hold it.
 *
 * $1 who
 * $2 lock
 * $3 claim
 * $4 shared
 * $5 most
 * $6 ttl
 * $7 delay
 * $8 minHold
 * $9 run
 * $10 ticket
 * $11 inbox
 * $12 detail
 * $13 wants
 * $14 quarantine
 */
export const CALL_STEAL: string = "select holdfast.steal(\n  $1::text, $2::text::bytea, $3::text, $4::text::boolean, $5::text::integer, $6::text::bigint, $7::text::bigint, $8::text::bigint,\n  $9::text::integer, $10::text::bigint, $11::text, $12::text, $13::text::boolean, $14::text::bigint) as answer";

/**
 * What a process must know before it begins.
 *
 * $1 none
 */
export const CALL_STORE_FACTS: string = "select holdfast.store_facts() as answer where $1::text is null";

/**
 * Release one claim and attempt another.
 *
 * $1 held
 * $2 heldMinHold
 * $3 lock
 * $4 claim
 * $5 shared
 * $6 most
 * $7 ttl
 * $8 delay
 * $9 minHold
 * $10 run
 * $11 ticket
 * $12 inbox
 * $13 detail
 * $14 wants
 * $15 quarantine
 */
export const CALL_SWAP: string = "select holdfast.swap(\n  $1::text, $2::text::bigint, $3::text::bytea, $4::text, $5::text::boolean, $6::text::integer, $7::text::bigint, $8::text::bigint,\n  $9::text::bigint, $10::text::integer, $11::text::bigint, $12::text, $13::text, $14::text::boolean,\n  $15::text::bigint) as answer";

/**
 * Who ended these leases by force.
 *
 * $1 locks
 * $2 claims
 */
export const CALL_WHY: string = "select holdfast.why($1::text::bytea[], $2::text::text[]) as answer";
