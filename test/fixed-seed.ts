/** For files whose properties are checked with dice: the same dice in every run of all tests. `HOLDFAST_SEED` throws others. */
import fc from "fast-check";

fc.configureGlobal({ ...fc.readConfigureGlobal(), seed: Number(process.env["HOLDFAST_SEED"] ?? 20_261_115) });
