-- The functions of version 1 that version 2 replaced, as they were: upgrade.test.ts puts them back, and upgrades them under load.

create or replace function holdfast.attempt(
  p_lock bytea, p_claim text, p_shared boolean, p_most integer, p_ttl bigint, p_delay bigint, p_min_hold bigint, p_run integer,
  p_ticket bigint, p_inbox text, p_detail text, p_wants boolean, p_quarantine bigint
) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '3s' as $function$
declare
  row_0 holdfast.lease;
  young bigint;
  now_us bigint;
  ahead bigint;
  alive bigint;
  last_ticket bigint;
  new_fence bigint;
  new_run integer;
begin
  if current_setting('transaction_isolation') <> 'read committed' or current_setting('synchronous_commit') = 'off' then
    perform holdfast.begin_step();
  end if;
  if p_quarantine = 0 then
    -- The usual case: there is no other claim. The clock is read before the row is locked, so the lease begins no later than it
    -- should, and one that has ended by then has ended. If the row changes meanwhile, the conditions are judged anew.
    update holdfast.lease as l set
      last = greatest(l.last + 1, at.us) + case when p_shared or p_most > 1 or l.last >= at.us then 0 else p_run - 1 end,
      until_us = at.us + (p_ttl + p_delay) * 1000, claim = p_claim, kept = false, shared = p_shared, most = p_most,
      fence = greatest(l.last + 1, at.us), run = case when p_shared or p_most > 1 or l.last >= at.us then 1 else p_run end,
      since_us = at.us, keep_ms = p_ttl + p_delay, delay_ms = p_delay, min_hold_ms = p_min_hold, inbox = p_inbox, detail = p_detail
    from (select (extract(epoch from clock_timestamp()) * 1000000)::bigint as us offset 0) as at
    where l.lock = p_lock and l.place = 0 and not l.crowded and l.until_us <= at.us and not (p_wants and l.done_us > at.us)
      and not exists (select from holdfast.store as s where s.quarantine_ms > 0)
    returning l.fence, l.run into new_fence, new_run;
    if found then
      return 'granted ' || new_fence || ' ' || new_run;
    end if;
  end if;
  row_0 := holdfast.open_lock(p_lock, true);
  young := holdfast.young(p_quarantine, p_ttl + p_delay);
  -- Read when the row is locked: waiting for it took time.
  now_us := holdfast.now_us();
  -- The usual case of a lock that is wanted by many: one claim holds it, and another like it joins the queue. As enter() does it; who lets
  -- the next one in removes tickets that are over.
  if young = 0 and p_ticket > 0 and not p_shared and p_most = 1 and not (p_wants and row_0.done_us > now_us)
    and row_0.until_us > now_us and not row_0.shared and row_0.most = 1 and row_0.claim <> p_claim
  then
    select count(*), count(*) filter (where w.till_us > now_us), max(w.ticket) into ahead, alive, last_ticket
    from holdfast.waiter as w where w.lock = p_lock;
    if ahead = alive then
      insert into holdfast.waiter (
        lock, claim, ticket, asked_us, till_us, ticket_ms, shared, most, run, ttl_ms, delay_ms, min_hold_ms, since_us, wants, inbox, detail
      ) values (
        p_lock, p_claim, greatest(last_ticket + 1, now_us), now_us, now_us + p_ticket * 1000, p_ticket, p_shared, p_most, p_run, p_ttl,
        p_delay, p_min_hold, now_us, p_wants, p_inbox, p_detail
      ) on conflict (lock, claim) do nothing;
      if found then
        -- A place in the queue need not survive a crash: who has lost it asks again. So the holder's release, which waits for this
        -- transaction, need not wait for the disk. What was granted before is on disk already, or this row would still be locked.
        perform set_config('synchronous_commit', 'off', true);
        if not row_0.crowded then
          update holdfast.lease as l set crowded = true where l.lock = p_lock and l.place = 0;
        end if;
        if ahead = 0 and not row_0.kept then
          perform holdfast.send_news(row_0.inbox, row_0.claim, 'wanted');
        end if;
        return 'refused ' || json_build_object(
          'place', ahead + 1, 'young', 0, 'now', now_us::text, 'last', row_0.last::text,
          'ahead', (row_0.until_us - now_us) / 1000 + 1, 'held', json_build_array(holdfast.holding(row_0, now_us)));
      end if;
    end if;
  end if;
  return holdfast.enter(row(
    p_lock, p_claim, 0, 0, 0, p_ticket, p_shared, p_most, p_run, p_ttl, p_delay, p_min_hold, 0, p_wants, p_inbox, p_detail
  )::holdfast.waiter, now_us, young);
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
begin
  if current_setting('transaction_isolation') <> 'read committed' or current_setting('synchronous_commit') = 'off' then
    perform holdfast.begin_step();
  end if;
  -- The usual case: there is no other claim, and no minHold. The claim held the lock when this step began.
  if p_min_hold = 0 then
    update holdfast.lease as l set until_us = 0, claim = null
    where l.lock = p_lock and l.place = 0 and not l.crowded and l.claim = p_claim and not l.kept
      and l.until_us > (extract(epoch from clock_timestamp()) * 1000000)::bigint;
    if found then
      return 'held';
    end if;
  end if;
  select * into row_0 from holdfast.lease as l where l.lock = p_lock and l.place = 0 for update;
  if not found then
    return 'absent';
  end if;
  -- Read when the row is locked: waiting for it took time.
  now_us := (extract(epoch from clock_timestamp()) * 1000000)::bigint;
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
      perform holdfast.send_news(next_one.inbox, next_one.claim, 'granted ' || new_fence || ' ' || new_run || case when more then ' w' else '' end);
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

create or replace function holdfast.release_many(
  p_locks bytea[], p_claims text[], p_min_holds bigint[], p_quarantine bigint, p_wait boolean
) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '3s' as $function$
declare
  one record;
  row_0 holdfast.lease;
  now_us bigint := holdfast.now_us();
  patient boolean := p_wait;
  letters text[] := array_fill('b'::text, array[cardinality(p_locks)]);
begin
  for one in
    select a.n, a.lock, a.claim, a.min_hold from unnest(p_locks, p_claims, p_min_holds) with ordinality as a (lock, claim, min_hold, n)
    order by a.lock, a.n
  loop
    if patient then
      begin
        letters[one.n] := left(holdfast.release(one.lock, one.claim, one.min_hold, p_quarantine), 1);
      exception when lock_not_available then
        patient := false;
      end;
      patient := patient and holdfast.now_us() - now_us < 3000000;
      continue;
    end if;
    select * into row_0 from holdfast.lease as l where l.lock = one.lock and l.place = 0 for update skip locked;
    continue when not found;
    if row_0.crowded then
      -- Those that a release may remove: its own, and those that are over.
      perform l.place from holdfast.lease as l
      where l.lock = one.lock and l.place > 0 and (l.claim = one.claim or l.until_us <= holdfast.now_us())
      except select f.place from (
        select l.place from holdfast.lease as l
        where l.lock = one.lock and l.place > 0 and (l.claim = one.claim or l.until_us <= holdfast.now_us()) for update skip locked) as f;
      continue when found;
    end if;
    letters[one.n] := left(holdfast.release(one.lock, one.claim, one.min_hold, p_quarantine), 1);
  end loop;
  return array_to_string(letters, '');
end
$function$;
