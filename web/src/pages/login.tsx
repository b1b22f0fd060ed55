import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";

import type { LoginWays, Proof } from "../api/client";
import { login, loginWays } from "../api/client";
import { replace } from "../lib/route";

const TOKEN_ALONE: LoginWays = { provider: "", passwords: false };

/**
 * Asks for a name and password where the daemon has them checked, else for a token; or takes the one-time secret of a link
 * (`#login=SECRET`), which leaves the address bar at once.
 */
export function Login(): JSX.Element {
  const [error, setError] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [ways, setWays] = useState(TOKEN_ALONE);
  const enter = async (proof: Proof): Promise<void> => {
    setBusy(true);
    setError("");
    try {
      await login(proof);
    } catch (problem) {
      setError(problem instanceof Error ? problem.message : String(problem));
      setBusy(false);
    }
  };
  useEffect(() => {
    const take = (): void => {
      const secret = takeSecret();
      if (secret) void enter({ secret });
    };
    take();
    void loginWays().then(setWays).catch(() => undefined); // the form of tokens is there in any case
    addEventListener("hashchange", take);
    return () => removeEventListener("hashchange", take);
  }, []);
  const byToken = <TokenForm isBusy={isBusy} isFirst={!ways.provider && !ways.passwords} enter={enter} />;
  return (
    <main class="login">
      <div class="card">
        <img src="/icon.svg" alt="" width="40" height="40" />
        <h1>Penstock</h1>
        {ways.provider && <a class="button primary" href="/web/oidc/start">Log in with {ways.provider}</a>}
        {ways.passwords && <PasswordForm isBusy={isBusy} isFirst={!ways.provider} enter={enter} />}
        {error && <p class="notice bad" role="alert">{error}</p>}
        {ways.passwords ? <details><summary>Log in with a token</summary>{byToken}</details> : byToken}
        <p class="faint small">Your own cluster: <code>penstock up --web</code> prints a link that needs no token.</p>
      </div>
    </main>
  );
}

interface FormProps {
  readonly isBusy: boolean;
  /** Whether it is the way that most users take. */
  readonly isFirst: boolean;
  readonly enter: (proof: Proof) => Promise<void>;
}

/** The name and password of the cluster. */
function PasswordForm({ isBusy, isFirst, enter }: FormProps): JSX.Element {
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        const form = event.currentTarget;
        const user = field(form, "user").trim();
        const password = field(form, "password");
        // A password that was refused is typed again.
        if (user && password) void enter({ user, password }).then(() => empty(form, "password"));
      }}
    >
      <label class="field">
        User name
        <input name="user" autocomplete="username" autocapitalize="none" spellcheck={false} required maxLength={64} />
      </label>
      <label class="field">
        Password
        <input name="password" type="password" autocomplete="current-password" required maxLength={512} />
      </label>
      <button type="submit" class={isFirst ? "primary" : ""} disabled={isBusy}>{isBusy ? "Logging in…" : "Log in"}</button>
    </form>
  );
}

/** A token, or what `scontrol token` prints. */
function TokenForm({ isBusy, isFirst, enter }: FormProps): JSX.Element {
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        const token = field(event.currentTarget, "token");
        if (token.trim()) void enter({ token });
      }}
    >
      <p class="faint">Log in with a token. On a machine of the cluster, this prints one:</p>
      <pre class="command">scontrol token lifespan=36000</pre>
      <label class="field">
        Token
        <input name="token" type="password" autocomplete="off" spellcheck={false} required placeholder="SLURM_JWT=…" />
      </label>
      <button type="submit" class={isFirst ? "primary" : ""} disabled={isBusy}>Log in with a token</button>
    </form>
  );
}

function field(form: HTMLFormElement, name: string): string {
  const value = new FormData(form).get(name);
  return typeof value === "string" ? value : "";
}

function empty(form: HTMLFormElement, name: string): void {
  const input = form.elements.namedItem(name);
  if (input instanceof HTMLInputElement) {
    input.value = "";
    input.focus();
  }
}

function takeSecret(): string {
  const found = /^#login=([\w-]+)$/.exec(location.hash)?.[1] ?? "";
  if (found) replace("#/");
  return found;
}
