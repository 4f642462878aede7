-- End one claim and attempt another on the same lock: a process that has used up its run of fences gets the next run at once if no
-- other claim waits, and a place in the queue otherwise.
--
-- $1 p_held
-- $2 p_held_min_hold
-- $3 p_lock
-- $4 p_claim
-- $5 p_shared
-- $6 p_most
-- $7 p_ttl
-- $8 p_delay
-- $9 p_min_hold
-- $10 p_run
-- $11 p_ticket
-- $12 p_inbox
-- $13 p_detail
-- $14 p_wants
-- $15 p_quarantine
--
-- Returns what release() returns, a space, and what enter() returns.

create or replace function holdfast.swap(
  p_held text, p_held_min_hold bigint, p_lock bytea, p_claim text, p_shared boolean, p_most integer, p_ttl bigint, p_delay bigint,
  p_min_hold bigint, p_run integer, p_ticket bigint, p_inbox text, p_detail text, p_wants boolean, p_quarantine bigint
) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '3s' as $function$
declare
  now_us bigint;
  young bigint;
  was text;
begin
  perform holdfast.begin_step();
  perform holdfast.open_lock(p_lock, true);
  young := holdfast.young(p_quarantine, p_ttl + p_delay);
  now_us := holdfast.now_us();
  was := holdfast.leave(p_lock, p_held, p_held_min_hold, now_us);
  return was || ' ' || holdfast.enter(row(
    p_lock, p_claim, 0, 0, 0, p_ticket, p_shared, p_most, p_run, p_ttl, p_delay, p_min_hold, 0, p_wants, p_inbox, p_detail
  )::holdfast.waiter, now_us, young);
end
$function$;
