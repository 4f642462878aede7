/** Which recipe a claim follows: a mutex or read/write lock with limit 1, a semaphore above. */
import type { Claim } from "../../contract/backend.ts";
import { LockBackendError, quote } from "../../contract/errors.ts";
import type { ZooKeeperClient } from "./client/client.ts";
import { MutexRecipe } from "./mutex-recipe.ts";
import type { Dialect, NamePaths } from "./paths.ts";
import type { PendingDeletes } from "./pending-deletes.ts";
import type { Recipe } from "./recipe.ts";
import { SemaphoreRecipe } from "./semaphore-recipe.ts";

export interface RecipeSetup {
  readonly client: ZooKeeperClient;
  readonly paths: NamePaths;
  readonly dialect: (name: string) => Dialect;
}

/** Throws a fatal error where the dialect has no such recipe. */
export function chooseRecipe(
  { client, paths, dialect: of }: RecipeSetup,
  claim: Claim,
  deletes: PendingDeletes,
): Recipe {
  const [path, dialect] = [paths.path(claim.name), of(claim.name)];
  if (claim.limit === 1) return new MutexRecipe(client, claim, path, dialect);
  if (dialect === "kazoo") {
    const message = `Lock ${quote(claim.name)}: kazoo's semaphores have a layout of their own; limits need dialect "curator".`;
    throw new LockBackendError("zookeeper", claim.name, message, { fatal: true });
  }
  return new SemaphoreRecipe(client, claim, path, (queueNode) =>
    deletes.deleteQuietly({ id: `${claim.id}/queue`, name: claim.name }, queueNode, "queued"),
  );
}
