/** What a request fails with: an error of the server, or of the connection. */

const CODES = {
  [-1]: "SYSTEMERROR",
  [-2]: "RUNTIMEINCONSISTENCY",
  [-4]: "CONNECTIONLOSS",
  [-5]: "MARSHALLINGERROR",
  [-6]: "UNIMPLEMENTED",
  [-7]: "OPERATIONTIMEOUT",
  [-8]: "BADARGUMENTS",
  [-101]: "NONODE",
  [-102]: "NOAUTH",
  [-103]: "BADVERSION",
  [-108]: "NOCHILDRENFOREPHEMERALS",
  [-110]: "NODEEXISTS",
  [-111]: "NOTEMPTY",
  [-112]: "SESSIONEXPIRED",
  [-113]: "INVALIDCALLBACK",
  [-114]: "INVALIDACL",
  [-115]: "AUTHFAILED",
  [-118]: "SESSIONMOVED",
  [-119]: "NOTREADONLY",
  [-122]: "REQUESTTIMEOUT",
  [-123]: "RECONFIGDISABLED",
  [-124]: "SESSIONCLOSEDREQUIRESASLAUTH",
  [-125]: "QUOTAEXCEEDED",
  [-127]: "THROTTLEDOP",
} as const;

/** ZooKeeper's own names for its errors. `CLOSED`: this client was closed. */
export type ZooKeeperErrorCode = (typeof CODES)[keyof typeof CODES] | "CLOSED" | "UNKNOWN";

const CONNECTION_LOSS = -4;

/** A request failed. `CONNECTIONLOSS` means that it is unknown whether it was carried out. */
export class ZooKeeperError extends Error {
  readonly code: ZooKeeperErrorCode;

  constructor(code: ZooKeeperErrorCode, what: string, options?: ErrorOptions) {
    super(`ZooKeeper: ${what}: ${code}`, options);
    this.name = "ZooKeeperError";
    this.code = code;
  }
}

/** A multi was refused as a whole, and changed nothing. */
export class ZooKeeperMultiError extends ZooKeeperError {
  /** Per operation: the error of the one that failed; `undefined` before it; `RUNTIMEINCONSISTENCY` after it. */
  readonly errors: readonly (ZooKeeperErrorCode | undefined)[];

  constructor(errors: readonly (ZooKeeperErrorCode | undefined)[]) {
    const cause = errors.find((code) => code !== undefined && code !== "RUNTIMEINCONSISTENCY");
    super(cause ?? "RUNTIMEINCONSISTENCY", "multi");
    this.name = "ZooKeeperMultiError";
    this.errors = errors;
  }
}

export function toCode(number: number): ZooKeeperErrorCode {
  return Object.hasOwn(CODES, number) ? CODES[number as keyof typeof CODES] : "UNKNOWN";
}

/** The error for an answer's error number. */
export function toError(number: number, what: string): ZooKeeperError {
  const code = toCode(number);
  return new ZooKeeperError(code, code === "UNKNOWN" ? `${what} (error ${number})` : what);
}

export function connectionLoss(what: string, cause?: unknown): ZooKeeperError {
  return new ZooKeeperError(toCode(CONNECTION_LOSS), what, { cause });
}

export function hasCode(error: unknown, ...codes: readonly ZooKeeperErrorCode[]): boolean {
  return error instanceof ZooKeeperError && codes.includes(error.code);
}
