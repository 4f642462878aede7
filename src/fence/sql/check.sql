-- Admit a fence in this transaction, or raise LK001.
--
-- $1 lock
-- $2 offered

select holdfast.check_fence($1, $2::bigint);
