-- Every role may call a new function unless this is taken back. The role that made these may call them, and who it grants it to.

do $function$
declare
  made record;
begin
  for made in
    select p.oid::pg_catalog.regprocedure as signature
    from pg_catalog.pg_proc as p join pg_catalog.pg_namespace as n on n.oid = p.pronamespace
    where n.nspname = 'holdfast' and p.proname in (
      'now_us', 'begin_step', 'open_lock', 'move_waiter', 'young', 'grant_lease', 'send_news', 'wanted', 'promote', 'leave', 'run', 'holding', 'refusal',
      'kept_outcome', 'enter', 'keep_on', 'tell_holders', 'end_by_force', 'attempt', 'release', 'release_many', 'finish', 'swap', 'renew', 'beat',
      'force_release', 'steal', 'forget', 'look_wanted', 'expect_wanted', 'look', 'inspect', 'why', 'clean', 'store_facts', 'end_quarantine')
  loop
    execute pg_catalog.format('revoke all on function %s from public', made.signature);
  end loop;
  revoke all on procedure holdfast.alone(text, text[], text) from public;
end
$function$;
