-- Take the lock if the claim may hold it now, or queue it, in one step.
--
-- $1 p_lock
-- $2 p_claim
-- $3 p_shared
-- $4 p_most
-- $5 p_ttl
-- $6 p_delay
-- $7 p_min_hold
-- $8 p_run
-- $9 p_ticket
-- $10 p_inbox
-- $11 p_detail
-- $12 p_wants
-- $13 p_quarantine
--
-- Returns what enter() returns.

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
  if (row_0.waiting).claim is not null then
    row_0 := holdfast.move_waiter(row_0);
  end if;
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
      if row_0.crowded then
        insert into holdfast.waiter (
          lock, claim, ticket, asked_us, till_us, ticket_ms, shared, most, run, ttl_ms, delay_ms, min_hold_ms, since_us, wants, inbox, detail
        ) select
          p_lock, p_claim, greatest(last_ticket + 1, now_us), now_us, now_us + p_ticket * 1000, p_ticket, p_shared, p_most, p_run, p_ttl,
          p_delay, p_min_hold, now_us, p_wants, p_inbox, p_detail
        where not exists (select from holdfast.store as s where s.quarantine_ms > 0);
      else
        update holdfast.lease as l set waiting = row(
          p_lock, p_claim, now_us, now_us, now_us + p_ticket * 1000, p_ticket, p_shared, p_most, p_run, p_ttl,
          p_delay, p_min_hold, now_us, p_wants, p_inbox, p_detail
        )::holdfast.waiter
        where l.lock = p_lock and l.place = 0 and not exists (select from holdfast.store as s where s.quarantine_ms > 0);
      end if;
      if found then
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
