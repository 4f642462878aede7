/** TLS by URL: which certificates are trusted and sent, and what a failed handshake means. */
import { createPrivateKey, type KeyObject, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";

import { ArgumentError } from "../../contract/argument-error.ts";
import { quote } from "../../contract/errors.ts";

/** As `node:tls` wants them. */
export interface TlsOptions {
  readonly ca?: Buffer | undefined;
  readonly cert?: Buffer | undefined;
  readonly key?: Buffer | undefined;
  readonly servername?: string | undefined;
}

const FILES = ["ca", "cert", "key"] as const;

/**
 * From `ca`, `cert` and `key` (paths of PEM files) and `servername`. Throws a `TypeError` for what cannot be read or makes no sense:
 * later it would look like a server that is not trusted, or that closes the connection.
 */
export function toTls(secure: boolean, take: (name: string) => string | undefined): TlsOptions | undefined {
  const paths = FILES.map((name) => [name, take(name)] as const);
  const servername = take("servername");
  const given = [...paths, ["servername", servername] as const].find(([, value]) => value !== undefined);
  if (!secure) {
    if (given === undefined) return undefined;
    throw new ArgumentError(
      `Expected \`${given[0]}\` in \`url\` only with TLS: rediss://, rediss+sentinel:// or rediss+cluster://`,
    );
  }
  const [ca, cert, key] = paths.map(([, path]) => path);
  if ((cert === undefined) !== (key === undefined)) {
    throw new ArgumentError("Expected `cert` and `key` in `url` together: a client certificate and its key");
  }
  const files: { readonly [name in (typeof FILES)[number]]?: Buffer } = Object.fromEntries(
    paths.flatMap(([name, path]) => (path === undefined ? [] : [[name, read(name, path)]])),
  );
  if (files.ca !== undefined) certificatesIn(files.ca, "ca", ca!);
  if (files.cert !== undefined && files.key !== undefined) {
    const [own] = certificatesIn(files.cert, "cert", cert!);
    if (!own!.checkPrivateKey(keyIn(files.key, key!))) {
      throw new ArgumentError(
        `Expected \`key\` in \`url\` to be the key of the certificate in \`cert\`, but ${quote(key!)} belongs to another one than ${quote(cert!)}`,
      );
    }
  }
  return { ...files, ...(servername === undefined ? {} : { servername }) };
}

function read(name: string, path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new ArgumentError(
      `Expected \`${name}\` in \`url\` to be the path of a PEM file, but ${quote(path)} cannot be read (${code})`,
    );
  }
}

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/gu;

/** At least one. Node itself accepts a file without certificates silently, and then trusts no authority. */
function certificatesIn(pem: Buffer, name: string, path: string): readonly X509Certificate[] {
  const refuse = (why: string): TypeError =>
    new ArgumentError(`Expected \`${name}\` in \`url\` to be a PEM file with certificates, but ${quote(path)} ${why}`);
  if (pem.length === 0) throw refuse("is empty");
  const blocks = pem.toString("latin1").match(CERTIFICATE) ?? [];
  if (blocks.length === 0) throw refuse("has none");
  return blocks.map((block, at) => {
    try {
      return new X509Certificate(block);
    } catch {
      throw refuse(`is damaged: certificate ${at + 1} of ${blocks.length} cannot be read`);
    }
  });
}

function keyIn(pem: Buffer, path: string): KeyObject {
  try {
    return createPrivateKey(pem);
  } catch {
    const locked = /ENCRYPTED/u.test(pem.toString("latin1"));
    throw new ArgumentError(
      `Expected \`key\` in \`url\` to be a PEM file with a private key, but ${quote(path)} ${locked ? "needs a passphrase, which a URL cannot give" : "has none that can be read"}`,
    );
  }
}

interface TlsTrouble {
  readonly pattern: RegExp;
  readonly text: string;
  /** The cause may be another one, which passes. */
  readonly passing?: boolean;
}

const TROUBLES: readonly TlsTrouble[] = [
  {
    pattern: /self[- ]signed|unable to (get|verify)|UNABLE_TO_|issuer certificate|SELF_SIGNED/iu,
    text: "TLS: the server's certificate is not from an authority that is trusted here. Name the one that signed it: ?ca=/path/to/ca.pem",
  },
  {
    pattern: /Hostname\/IP does not match|ERR_TLS_CERT_ALTNAME_INVALID/iu,
    text: "TLS: the server's certificate is for another name. Use that name as host, or pass it: ?servername=name",
  },
  {
    pattern: /certificate has expired|CERT_HAS_EXPIRED|not yet valid/iu,
    text: "TLS: the server's certificate is out of date. Renew it",
  },
  {
    pattern: /certificate required|handshake failure|bad certificate|unknown ca|peer did not return/iu,
    text: "TLS: the server does not accept us: it wants a client certificate that it trusts. Name it: ?cert=/path/to/cert.pem&key=/path/to/key.pem",
  },
  {
    pattern: /wrong version number|packet length too long|EPROTO|http request/iu,
    text: "TLS: the other side does not speak it. Use redis://, or redis+sentinel:// or redis+cluster://, there, or the port for TLS",
  },
  {
    pattern: /ECONNRESET|EPIPE|closed|disconnected before secure|ETIMEDOUT|timeout|timed out/iu,
    text: "TLS: the server did not answer the handshake, or ended the connection. Either it does not speak TLS (use redis://, or redis+sentinel:// or redis+cluster://, there), or it wants a client certificate (?cert=/path/to/cert.pem&key=/path/to/key.pem)",
    passing: true,
  },
];

/** What failed with TLS, or `undefined` if it was not TLS. */
export function tlsTrouble(message: string): TlsTrouble | undefined {
  return TROUBLES.find(({ pattern }) => pattern.test(message));
}
