/** How tests that make their own connections, through a proxy say, log in to the lab's servers. */
import { labPassword } from "../src/lab/servers/secret.ts";

export const PASSWORD: string = labPassword();
/** For URLs: `redis://${LOGIN}127.0.0.1:…`. */
export const LOGIN: string = `:${PASSWORD}@`;
