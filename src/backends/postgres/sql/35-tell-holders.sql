-- The queue has begun: tell those whom the claim waits for, and who want to know. One message for the readers in a process, which passes it on to all of them.
--
-- $1 p_lock
-- $2 p_now

create or replace function holdfast.tell_holders(p_lock bytea, p_now bigint) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $function$
begin
  perform holdfast.send_news(h.inbox, h.claim, 'wanted') from (
    select distinct on (l.inbox) l.inbox, l.claim from holdfast.lease as l
    where l.lock = p_lock and not l.kept and right(l.inbox, 1) = '!' and l.until_us > p_now and holdfast.wanted(l, p_now)
    order by l.inbox, l.fence) as h;
end
$function$;
