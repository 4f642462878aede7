-- Tell a process of one of its claims. Every role of the database can send such messages, so this one shows the beginning of the
-- claim's id and proves with a hash that its sender knows the rest.
--
-- $1 p_inbox
-- $2 p_claim
-- $3 p_news

create or replace function holdfast.send_news(p_inbox text, p_claim text, p_news text) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $function$
begin
  if p_inbox is not null then
    perform pg_catalog.pg_notify(pg_catalog.rtrim(p_inbox, '!'), pg_catalog.left(p_claim, 8) || ' ' || p_news || ' ' || pg_catalog.left(
      pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(p_claim || ' ' || p_news, 'UTF8')), 'hex'), 24));
  end if;
end
$function$;
