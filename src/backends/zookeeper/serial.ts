/** The claims that this process knows. The operations of each run one after the other. */
import type { Claim } from "../../contract/backend.ts";
import { holdsText } from "../../contract/local-facts.ts";
import { rewriteClaim } from "./node-data.ts";
import type { Recipe } from "./recipe.ts";

export class SerialClaims {
  /** For a claim that is new, or whose lease is over. */
  readonly recipe: (claim: Claim) => Recipe;
  readonly #claims = new Map<string, SerialClaim>();

  constructor(recipe: (claim: Claim) => Recipe) {
    this.recipe = recipe;
  }

  get(id: string): SerialClaim | undefined {
    return this.#claims.get(id);
  }

  all(): readonly SerialClaim[] {
    return [...this.#claims.values()];
  }

  /** Known from now on, if it was not before. */
  add(claim: Claim): SerialClaim {
    const known = this.#claims.get(claim.id);
    if (known !== undefined) return known;
    const added = new SerialClaim(this.recipe(claim), claim);
    this.#claims.set(claim.id, added);
    return added;
  }

  delete(id: string): void {
    this.#claims.delete(id);
  }
}

export class SerialClaim {
  recipe: Recipe;
  #isBusy = false;
  readonly #waiting: (() => void)[] = [];
  #holds: string;

  constructor(recipe: Recipe, claim: Claim) {
    this.recipe = recipe;
    this.#holds = holdsText(claim.local);
  }

  /**
   * What a process says of itself, without waiting for it: no more often than once in `paceMs`, unless those who wait hold other
   * locks than before.
   */
  tell(claim: Claim, isNew: boolean, paceMs: number): void {
    const holds = isNew ? holdsText(claim.local) : this.#holds;
    const isUrgent = holds !== this.#holds;
    this.#holds = holds;
    void this.recipe.tell(isNew ? rewriteClaim(claim) : undefined, isUrgent ? 0 : paceMs);
  }

  /** Waits for its turn: a release runs after the attempt before it, and removes what that made. Ends with leave(). */
  enter(): Promise<void> | undefined {
    if (this.#isBusy) return new Promise<void>((resolve) => this.#waiting.push(resolve));
    this.#isBusy = true;
    return undefined;
  }

  leave(): void {
    const next = this.#waiting.shift();
    // Handed over without a gap, so no other operation gets in between.
    if (next === undefined) this.#isBusy = false;
    else next();
  }
}
