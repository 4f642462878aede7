-- Grant the claim, or queue it. The caller has locked row 0.
--
-- $1 p_terms
-- $2 p_now
-- $3 p_young
--
-- Returns what run() returns; "outcome " and JSON, for a claim that wants that and may have it; "limit <n>" if the lock is in use with
-- another; or "refused " and JSON.

create or replace function holdfast.enter(p_terms holdfast.waiter, p_now bigint, p_young bigint) returns text
language plpgsql set search_path = pg_catalog, pg_temp as $function$
declare
  terms holdfast.waiter := p_terms;
  mine holdfast.lease;
  waits boolean := false;
  queue_empty boolean;
  known_limit integer;
  holders bigint;
  all_shared boolean;
  done text;
begin
  mine := holdfast.keep_on(terms, p_now);
  if mine.lock is not null then
    -- A repeated attempt: the reply to the first was lost. In a swap, the claim that left may have blocked others.
    perform holdfast.promote(terms.lock, p_now, terms.claim, p_young);
    return holdfast.run(mine, p_now);
  end if;
  if terms.wants then
    done := holdfast.kept_outcome(terms.lock, p_now);
  end if;
  if terms.ticket_ms > 0 and done is null then
    update holdfast.waiter as w set
      asked_us = p_now, till_us = p_now + terms.ticket_ms * 1000, ticket_ms = terms.ticket_ms, ttl_ms = terms.ttl_ms,
      delay_ms = terms.delay_ms, min_hold_ms = terms.min_hold_ms, wants = terms.wants, inbox = terms.inbox, detail = terms.detail
    where w.lock = terms.lock and w.claim = terms.claim;
    waits := found;
  else
    delete from holdfast.waiter as w where w.lock = terms.lock and w.claim = terms.claim;
  end if;
  queue_empty := holdfast.promote(terms.lock, p_now, terms.claim, p_young);
  if done is not null then
    return 'outcome ' || done;
  end if;
  if waits then
    select * into mine from holdfast.lease as l where l.lock = terms.lock and l.claim = terms.claim and l.until_us > p_now and not l.kept;
    if found then
      return holdfast.run(mine, p_now);
    end if;
    return holdfast.refusal(terms.lock, terms.claim, p_now, p_young);
  end if;
  select count(*), bool_and(l.shared), min(l.most) into holders, all_shared, known_limit
  from holdfast.lease as l where l.lock = terms.lock and l.until_us > p_now;
  if not terms.shared then
    if holders = 0 or all_shared then
      select w.most into known_limit from holdfast.waiter as w where w.lock = terms.lock and not w.shared order by w.ticket limit 1;
    end if;
    if known_limit <> terms.most then
      return 'limit ' || known_limit;
    end if;
  end if;
  if queue_empty and p_young = 0 and (holders = 0 or (all_shared = terms.shared and (terms.shared or holders < terms.most))) then
    -- No claim waits, so it is not wanted.
    return 'granted ' || holdfast.grant_lease(terms, p_now, p_now + (terms.ttl_ms + terms.delay_ms) * 1000);
  end if;
  if terms.ticket_ms > 0 then
    select greatest(max(w.ticket) + 1, p_now) into terms.ticket from holdfast.waiter as w where w.lock = terms.lock;
    terms.asked_us := p_now;
    terms.till_us := p_now + terms.ticket_ms * 1000;
    terms.since_us := p_now;
    insert into holdfast.waiter select (terms).*;
    update holdfast.lease as l set crowded = true where l.lock = terms.lock and l.place = 0 and not l.crowded;
    if queue_empty then
      perform holdfast.tell_holders(terms.lock, p_now);
    end if;
  end if;
  return holdfast.refusal(terms.lock, terms.claim, p_now, p_young);
end
$function$;
