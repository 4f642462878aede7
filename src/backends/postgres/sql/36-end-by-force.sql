-- End a lease from outside, write down who did it, and tell its holder. The caller has locked row 0.
--
-- $1 p_lease
-- $2 p_who
-- $3 p_now

create or replace function holdfast.end_by_force(p_lease holdfast.lease, p_who text, p_now bigint) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $function$
begin
  if p_lease.place = 0 then
    update holdfast.lease as l set until_us = 0, claim = null where l.lock = p_lease.lock and l.place = 0;
  else
    delete from holdfast.lease as l where l.lock = p_lease.lock and l.place = p_lease.place;
  end if;
  insert into holdfast.forced (lock, fence, claim, at_us, who) values (p_lease.lock, p_lease.fence, p_lease.claim, p_now, p_who)
  on conflict (lock, fence) do nothing;
  if not p_lease.kept then
    perform holdfast.send_news(p_lease.inbox, p_lease.claim, 'forced');
  end if;
end
$function$;
