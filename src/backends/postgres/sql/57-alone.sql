-- Run a statement and commit, all in one step. In a transaction the server refuses the commit (2D000), so an answer is never one that may
-- still be rolled back. It runs with the rights of the caller.
--
-- $1 p_statement
-- $2 p_values
--
-- p_statement: one that returns one text, with p_values as its $1.

create or replace procedure holdfast.alone(p_statement text, p_values text[], inout answer text)
language plpgsql as $function$
begin
  execute p_statement into answer using p_values;
  commit;
end
$function$;
