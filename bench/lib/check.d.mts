export interface Finding {
  readonly id: string;
  readonly was: number;
  readonly now: number | undefined;
  readonly why: string;
}
export interface Release {
  readonly version: string;
  readonly commit: string;
}
export type Ratios = Readonly<Record<string, number>>;

export const MAY_GROW: number;
export const CHECKED: readonly string[];
export const NEW: string;
export const OLD: string;
export function readRatios(): { readonly release: Release; readonly ratios: Ratios };
export function writeRatios(release: Release, ratios: Ratios): void;
export function buildRelease(release: Release, say: (text: string) => void): string;
export function ratiosOf(suites: Readonly<Record<string, { readonly parts: readonly unknown[] }>>): Ratios;
export function judge(ratios: Ratios, committed: Ratios): readonly Finding[];
export function textOf(finding: Finding): string;
