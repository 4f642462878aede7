/** A Lua script as the build leaves it. */

export interface Script {
  readonly name: string;
  readonly sha: string;
  readonly source: string;
}
