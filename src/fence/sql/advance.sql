-- Raise the mark unless it is higher already.
--
-- $1 lock
-- $2 offered
--
-- Returns the mark as it then is.

insert into holdfast.fence_mark as mark (lock, fence) values ($1, $2::bigint)
on conflict (lock) do update set fence = greatest(mark.fence, excluded.fence)
returning fence::text as fence;
