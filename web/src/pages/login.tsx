import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";

import { login, loginProvider } from "../api/client";
import { replace } from "../lib/route";

/** Asks for a token, or takes the one-time secret of a link (`#login=SECRET`), which leaves the address bar at once. */
export function Login(): JSX.Element {
  const [error, setError] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [provider, setProvider] = useState("");
  const enter = async (proof: { token: string } | { secret: string }): Promise<void> => {
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
    void loginProvider().then(setProvider).catch(() => undefined); // the form is there in any case
    addEventListener("hashchange", take);
    return () => removeEventListener("hashchange", take);
  }, []);
  return (
    <main class="login">
      <form
        class="card"
        onSubmit={(event) => {
          event.preventDefault();
          const token = new FormData(event.currentTarget).get("token");
          if (typeof token === "string" && token.trim()) void enter({ token });
        }}
      >
        <img src="/icon.svg" alt="" width="40" height="40" />
        <h1>Penstock</h1>
        {provider && <a class="button primary" href="/web/oidc/start">Log in with {provider}</a>}
        <p class="faint">Log in with a token. On a machine of the cluster, this prints one:</p>
        <pre class="command">scontrol token lifespan=36000</pre>
        <label class="field">
          Token
          <input name="token" type="password" autocomplete="off" spellcheck={false} required placeholder="SLURM_JWT=…" />
        </label>
        {error && <p class="notice bad" role="alert">{error}</p>}
        <button type="submit" class={provider ? "" : "primary"} disabled={isBusy}>Log in with a token</button>
        <p class="faint small">Your own cluster: <code>penstock up --web</code> prints a link that needs no token.</p>
      </form>
    </main>
  );
}

function takeSecret(): string {
  const found = /^#login=([\w-]+)$/.exec(location.hash)?.[1] ?? "";
  if (found) replace("#/");
  return found;
}
