/** A store that is open for the driver. */
import type { CastMaker } from "../round.ts";
import type { DrivenStore } from "../store.ts";

/** `cast`: where the store's clients must be processes of their own. */
export type OpenedStore = DrivenStore & { readonly cast?: CastMaker | undefined };
