-- The functions of version 2 that version 3 replaced, as they were: upgrade.test.ts puts them back, and upgrades them under load.

create or replace function holdfast.open_lock(p_lock bytea, p_make boolean) returns holdfast.lease
language plpgsql set search_path = pg_catalog, pg_temp as $function$
declare
  row_0 holdfast.lease;
begin
  loop
    select * into row_0 from holdfast.lease as l where l.lock = p_lock and l.place = 0 for update;
    if found or not p_make then
      return row_0;
    end if;
    insert into holdfast.lease as l (lock, place) values (p_lock, 0) on conflict do nothing;
    if found then
      -- The floor is read after the insert: a removal of the row that came before it has been committed, with its floor.
      update holdfast.lease as l set last = s.floor from holdfast.store as s where l.lock = p_lock and l.place = 0;
    end if;
  end loop;
end
$function$;

create or replace function holdfast.wanted(p_lease holdfast.lease, p_now bigint) returns boolean
language plpgsql stable set search_path = pg_catalog, pg_temp as $function$
begin
  return exists (select from holdfast.waiter as w where w.lock = p_lease.lock and w.till_us > p_now) and (
    p_lease.shared or not exists (
      select from holdfast.lease as o
      where o.lock = p_lease.lock and o.until_us > p_now and not o.kept and o.fence < p_lease.fence));
end
$function$;

create or replace function holdfast.attempt(
  p_lock bytea, p_claim text, p_shared boolean, p_most integer, p_ttl bigint, p_delay bigint, p_min_hold bigint, p_run integer,
  p_ticket bigint, p_inbox text, p_detail text, p_wants boolean, p_quarantine bigint
) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '3s' as $function$
declare
  row_0 holdfast.lease;
  now_us bigint;
  new_fence bigint;
  new_run integer;
  ahead bigint := 0;
  others bigint := 0;
  last_ticket bigint;
  -- What is assigned to it is an expression, which costs less than a statement.
  done text;
begin
  if current_setting('transaction_isolation') <> 'read committed' or current_setting('synchronous_commit') = 'off' then
    perform holdfast.begin_step();
  end if;
  select * into row_0 from holdfast.lease as l where l.lock = p_lock and l.place = 0 for update;
  if not found then
    row_0 := holdfast.open_lock(p_lock, true);
  end if;
  -- Read when the row is locked: waiting for it took time.
  now_us := (extract(epoch from clock_timestamp()) * 1000000)::bigint;
  if p_quarantine > 0 or (p_wants and row_0.done_us > now_us) then
    -- Not one of the usual cases.
  elsif row_0.until_us <= now_us and not row_0.crowded then
    -- There is no other claim.
    update holdfast.lease as l set
      last = greatest(l.last + 1, now_us) + case when p_shared or p_most > 1 or l.last >= now_us then 0 else p_run - 1 end,
      until_us = now_us + (p_ttl + p_delay) * 1000, claim = p_claim, kept = false, shared = p_shared, most = p_most,
      fence = greatest(l.last + 1, now_us), run = case when p_shared or p_most > 1 or l.last >= now_us then 1 else p_run end,
      since_us = now_us, keep_ms = p_ttl + p_delay, delay_ms = p_delay, min_hold_ms = p_min_hold, inbox = p_inbox, detail = p_detail
    where l.lock = p_lock and l.place = 0 and not exists (select from holdfast.store as s where s.quarantine_ms > 0)
    returning l.fence, l.run into new_fence, new_run;
    if found then
      return 'granted ' || new_fence || ' ' || new_run;
    end if;
  elsif row_0.until_us > now_us and not row_0.shared and row_0.most = 1 and row_0.claim <> p_claim and p_ticket > 0 and not p_shared and p_most = 1 then
    -- One claim holds the lock, and another like it joins the queue. As enter() does it; who lets the next one in removes tickets that are over.
    if row_0.crowded then
      select count(*), count(*) filter (where w.till_us > now_us and w.claim <> p_claim), max(w.ticket) into ahead, others, last_ticket
      from holdfast.waiter as w where w.lock = p_lock;
    end if;
    if ahead = others then
      insert into holdfast.waiter (
        lock, claim, ticket, asked_us, till_us, ticket_ms, shared, most, run, ttl_ms, delay_ms, min_hold_ms, since_us, wants, inbox, detail
      ) select
        p_lock, p_claim, greatest(last_ticket + 1, now_us), now_us, now_us + p_ticket * 1000, p_ticket, p_shared, p_most, p_run, p_ttl,
        p_delay, p_min_hold, now_us, p_wants, p_inbox, p_detail
      where not exists (select from holdfast.store as s where s.quarantine_ms > 0);
      if found then
        if not row_0.crowded then
          update holdfast.lease as l set crowded = true where l.lock = p_lock and l.place = 0;
        end if;
        if ahead = 0 and not row_0.kept and right(row_0.inbox, 1) = '!' then
          -- As send_news() does it.
          done := pg_notify(rtrim(row_0.inbox, '!'), left(row_0.claim, 8) || ' wanted ' || left(
            encode(sha256(convert_to(row_0.claim || ' wanted', 'UTF8')), 'hex'), 24))::text;
        end if;
        -- A place in the queue need not survive a crash: who has lost it asks again. So the holder's release, which waits for this
        -- transaction, need not wait for the disk. What was granted before is on disk already, or this row would still be locked.
        done := set_config('synchronous_commit', 'off', true);
        -- As refusal() and holding() do it, which takes longer.
        return 'refused {"place":' || ahead + 1 || ',"young":0,"now":"' || now_us || '","last":"' || row_0.last
          || '","ahead":' || (row_0.until_us - now_us) / 1000 + 1
          || ',"held":[{"id":' || to_json(row_0.claim) || ',"shared":false,"most":1,"fence":"' || row_0.fence
          || '","held":' || (now_us - row_0.since_us) / 1000 || ',"left":' || (row_0.until_us - now_us) / 1000
          || ',"detail":' || coalesce(to_json(row_0.detail)::text, 'null') || case
            when row_0.kept then ',"remainder":"minHold"'
            when row_0.delay_ms > 0 and row_0.until_us - row_0.delay_ms * 1000 <= now_us then ',"remainder":"lockDelay"'
            else '' end || '}]}';
      end if;
    end if;
  end if;
  return holdfast.enter(row(
    p_lock, p_claim, 0, 0, 0, p_ticket, p_shared, p_most, p_run, p_ttl, p_delay, p_min_hold, 0, p_wants, p_inbox, p_detail
  )::holdfast.waiter, now_us, holdfast.young(p_quarantine, p_ttl + p_delay));
end
$function$;

create or replace function holdfast.release(p_lock bytea, p_claim text, p_min_hold bigint, p_quarantine bigint) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '3s' as $function$
declare
  row_0 holdfast.lease;
  next_one holdfast.waiter;
  now_us bigint;
  new_fence bigint;
  new_run integer;
  was text;
  more boolean;
  news text;
  -- In a batch, an earlier release may have granted. Those of version 1 do not flush it themselves, and this may be called in the middle of one.
  is_first boolean := txid_current_if_assigned() is null;
begin
  if current_setting('transaction_isolation') <> 'read committed' or current_setting('synchronous_commit') = 'off' then
    perform holdfast.begin_step();
  end if;
  select * into row_0 from holdfast.lease as l where l.lock = p_lock and l.place = 0 for update;
  if not found then
    return 'absent';
  end if;
  -- Read when the row is locked: waiting for it took time.
  now_us := (extract(epoch from clock_timestamp()) * 1000000)::bigint;
  -- The usual case: there is no other claim, and no minHold.
  if p_min_hold = 0 and not row_0.crowded and row_0.claim = p_claim and row_0.until_us > now_us and not row_0.kept then
    update holdfast.lease as l set until_us = 0, claim = null where l.lock = p_lock and l.place = 0;
    -- No claim waits for it, so this need not wait for the disk: a crash that forgets it only leaves the lock taken until the lease would have
    -- ended. The next claim that gets the lock before that has a commit that is flushed, and this one with it. An end that is far away is flushed.
    if is_first and row_0.until_us - now_us <= 60000000 then
      news := set_config('synchronous_commit', 'off', true);
    end if;
    return 'held';
  end if;
  -- The usual case of a lock that is wanted by many: its only holder leaves, and the next waiter is like it and alive. As promote()
  -- and grant_lease() do it. Beside such a holder there are no rows but those of leases that are over.
  if p_min_hold = 0 and p_quarantine = 0 and row_0.claim = p_claim and row_0.until_us > now_us and not row_0.kept
    and not row_0.shared and row_0.most = 1
  then
    delete from holdfast.waiter as w
    where w.lock = p_lock and w.ticket = (select min(f.ticket) from holdfast.waiter as f where f.lock = p_lock)
      and w.till_us > now_us and not w.shared and w.most = 1
      and not exists (select from holdfast.store as s where s.quarantine_ms > 0)
    returning * into next_one;
    if found then
      new_fence := greatest(row_0.last + 1, now_us);
      new_run := case when new_fence = now_us then next_one.run else 1 end;
      update holdfast.lease as l set
        last = new_fence + new_run - 1, until_us = next_one.asked_us + (next_one.ttl_ms + next_one.delay_ms) * 1000,
        claim = next_one.claim, fence = new_fence, run = new_run, since_us = now_us,
        keep_ms = next_one.ttl_ms + next_one.delay_ms, delay_ms = next_one.delay_ms, min_hold_ms = next_one.min_hold_ms, inbox = next_one.inbox,
        detail = next_one.detail,
        crowded = exists (select from holdfast.waiter as w where w.lock = p_lock)
          or exists (select from holdfast.lease as o where o.lock = p_lock and o.place > 0)
      where l.lock = p_lock and l.place = 0
      returning l.crowded into more;
      if next_one.inbox is not null then
        -- As send_news() does it.
        news := ' granted ' || new_fence || ' ' || new_run || case when more then ' w ' else ' ' end;
        news := pg_notify(next_one.inbox, left(next_one.claim, 8) || news || left(
          encode(sha256(convert_to(next_one.claim || rtrim(news), 'UTF8')), 'hex'), 24))::text;
      end if;
      return 'held';
    end if;
  end if;
  was := holdfast.leave(p_lock, p_claim, p_min_hold, now_us);
  if row_0.crowded then
    perform holdfast.promote(p_lock, now_us, '', holdfast.young(p_quarantine, 0));
  end if;
  return was;
end
$function$;

create or replace function holdfast.renew(
  p_locks bytea[], p_claims text[], p_fences bigint[], p_ttl bigint, p_delay bigint, p_details jsonb, p_wait bigint
) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '3s' as $function$
declare
  now_us bigint;
  new_until bigint;
  numbers bigint[];
  locks bytea[];
  places bigint[];
  answer text;
begin
  perform holdfast.begin_step();
  perform holdfast.young(0, p_ttl + p_delay);
  if p_wait > 0 then
    perform set_config('lock_timeout', p_wait::text, true);
    select array_agg(m.n), array_agg(m.lock), array_agg(m.place) into numbers, locks, places from (
      select a.n, l.lock, l.place from unnest(p_locks, p_claims) with ordinality as a (lock, claim, n)
      join holdfast.lease as l on l.lock = a.lock and l.claim = a.claim order by l.lock, l.place for update of l) as m;
  else
    select array_agg(m.n), array_agg(m.lock), array_agg(m.place) into numbers, locks, places from (
      select a.n, l.lock, l.place from unnest(p_locks, p_claims) with ordinality as a (lock, claim, n)
      join holdfast.lease as l on l.lock = a.lock and l.claim = a.claim order by l.lock, l.place for update of l skip locked) as m;
  end if;
  -- Read when the rows are locked: a lease that ended meanwhile is not renewed.
  now_us := holdfast.now_us();
  new_until := now_us + (p_ttl + p_delay) * 1000;
  with mine as (
    select m.n, l.lock, l.place, l.fence = coalesce(p_fences[m.n], l.fence) as same,
      -- Row 0 of a lock that is not crowded knows that no claim waits.
      (l.crowded or l.place > 0) and holdfast.wanted(l, now_us) as wanted
    from unnest(numbers, locks, places) as m (n, lock, place)
    join holdfast.lease as l on l.lock = m.lock and l.place = m.place
    where l.claim = p_claims[m.n] and l.until_us > now_us and not l.kept
  ), renewed as (
    update holdfast.lease as l set
      until_us = greatest(l.until_us, new_until), keep_ms = p_ttl + p_delay,
      delay_ms = case when l.until_us > new_until then l.delay_ms else p_delay end,
      detail = coalesce(p_details ->> m.n::text, l.detail)
    from mine as m
    where l.lock = m.lock and l.place = m.place and m.same
  )
  select string_agg(case
    when m.same and m.wanted then 'w'
    when m.same then 'y'
    when m.n is not null then 'o'
    when p_wait > 0 or a.n = any (numbers) or not exists (
      select from holdfast.lease as l where l.lock = a.lock and l.claim = a.claim and l.until_us > now_us and not l.kept) then 'n'
    else 'b' end, '' order by a.n) into answer
  from unnest(p_locks, p_claims) with ordinality as a (lock, claim, n) left join mine as m on m.n = a.n;
  return answer;
end
$function$;

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

create or replace function holdfast.look(p_from bytea, p_to bytea) returns setof text
language sql stable security definer set search_path = pg_catalog, pg_temp as $function$
  with at as materialized (select (extract(epoch from clock_timestamp()) * 1000000)::bigint as us)
  select holdfast.holding(l, at.us)::text from holdfast.lease as l, at
  where l.lock >= p_from and (p_to is null or l.lock < p_to) and l.until_us > at.us
  union all
  select json_build_object(
    'kind', 'waiting', 'lock', encode(w.lock, 'hex'), 'id', w.claim, 'shared', w.shared, 'most', w.most,
    'waiting', (at.us - w.since_us) / 1000, 'place', row_number() over (partition by w.lock order by w.ticket),
    'since', w.since_us::text, 'detail', w.detail)::text
  from holdfast.waiter as w, at
  where w.lock >= p_from and (p_to is null or w.lock < p_to) and w.till_us > at.us
  union all
  select json_build_object(
    'kind', 'forced', 'lock', encode(f.lock, 'hex'), 'fence', f.fence::text, 'ago', (at.us - f.at_us) / 1000, 'who', f.who)::text
  from holdfast.forced as f, at
  where f.lock >= p_from and (p_to is null or f.lock < p_to) and f.at_us > at.us - 3600 * 1000000::bigint
$function$;

create or replace function holdfast.clean(p_from bytea, p_rows integer, p_idle bigint) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '3s' as $function$
declare
  now_us bigint := holdfast.now_us();
  candidate record;
  row_0 holdfast.lease;
  seen integer := 0;
  next_from bytea := ''::bytea;
  greatest_fence bigint := 0;
begin
  perform holdfast.begin_step();
  delete from holdfast.forced as f where f.ctid = any (array(
    select o.ctid from holdfast.forced as o where o.at_us < now_us - 3600 * 1000000::bigint limit p_rows for update skip locked));
  for candidate in
    select l.lock, l.place, greatest(l.until_us, l.since_us) as used_us, l.done_us from holdfast.lease as l
    where l.lock >= p_from order by l.lock, l.place limit p_rows
  loop
    seen := seen + 1;
    next_from := candidate.lock;
    continue when candidate.place > 0 or candidate.done_us > now_us
      or (candidate.done_us = 0 and candidate.used_us > now_us - p_idle * 1000);
    select * into row_0 from holdfast.lease as l where l.lock = candidate.lock and l.place = 0 for update skip locked;
    continue when not found or row_0.done_us > now_us;
    if row_0.done_us > 0 then
      delete from holdfast.outcome as o where o.lock = candidate.lock;
      update holdfast.lease as l set done_us = 0 where l.lock = candidate.lock and l.place = 0;
    end if;
    continue when greatest(row_0.until_us, row_0.since_us, row_0.done_us) > now_us - p_idle * 1000;
    if row_0.crowded then
      delete from holdfast.waiter as w where w.lock = candidate.lock and w.till_us <= now_us - p_idle * 1000;
      delete from holdfast.lease as l where l.lock = candidate.lock and l.place > 0 and l.until_us <= now_us;
      continue when exists (select from holdfast.waiter as w where w.lock = candidate.lock)
        or exists (select from holdfast.lease as l where l.lock = candidate.lock and l.place > 0);
    end if;
    delete from holdfast.lease as l where l.lock = candidate.lock and l.place = 0;
    greatest_fence := greatest(greatest_fence, row_0.last);
  end loop;
  if greatest_fence > 0 then
    update holdfast.store as s set floor = greatest_fence where s.floor < greatest_fence;
  end if;
  -- The last name again, unless it was the only one: more of its rows may follow.
  return case when seen < p_rows then '' when next_from = p_from then encode(next_from || '\x00'::bytea, 'hex') else encode(next_from, 'hex') end;
end
$function$;

-- What version 2 did not have.

alter table holdfast.lease drop column waiting;

drop function holdfast.move_waiter(holdfast.lease);
