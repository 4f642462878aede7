/** A claim that this process knows. Its operations run one after the other. */
import type { Recipe } from "./recipe.ts";

export class SerialClaim {
  recipe: Recipe;
  #isBusy = false;
  readonly #waiting: (() => void)[] = [];

  constructor(recipe: Recipe) {
    this.recipe = recipe;
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
