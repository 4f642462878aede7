-- What every step that writes needs before it looks at anything: each of its statements sees what was committed before that
-- statement (LK004 otherwise), and its commit survives a crash of the server, whatever the role's settings are.

create or replace function holdfast.begin_step() returns void
language plpgsql set search_path = pg_catalog, pg_temp as $function$
begin
  -- Postgres does not know "read uncommitted": it is the same.
  if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
    raise exception 'Holdfast needs transactions of the level "read committed", not "%"', current_setting('transaction_isolation')
      using errcode = 'LK004', hint = 'Set default_transaction_isolation to ''read committed'' for the role that Holdfast uses.';
  end if;
  if current_setting('synchronous_commit') = 'off' then
    -- Until the end of this transaction.
    perform set_config('synchronous_commit', 'on', true);
  end if;
end
$function$;
