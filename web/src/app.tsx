import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import { findSession, logout, session } from "./api/client";
import { connection, startLive } from "./api/live";
import { link, route } from "./lib/route";
import { useStore } from "./lib/store";
import { themeChanges } from "./parts/gpugrid";
import { Accounts } from "./pages/accounts";
import { ClusterPage } from "./pages/cluster";
import { Job } from "./pages/job";
import { Jobs } from "./pages/jobs";
import { Login } from "./pages/login";
import { NodePage, Nodes } from "./pages/nodes";
import { Overview } from "./pages/overview";
import { PastJobs } from "./pages/pastjobs";
import { Plan } from "./pages/plan";
import { PolicyPage } from "./pages/policy";
import { QosPage } from "./pages/qos";
import { Reports } from "./pages/reports";
import { Reservations } from "./pages/reservations";
import { Sessions } from "./pages/sessions";
import { Simulator } from "./pages/simulator";
import { Submit } from "./pages/submit";

const PAGES = [["", "Overview"], ["jobs", "Jobs"], ["submit", "Submit"], ["sessions", "Sessions"], ["nodes", "Nodes"], ["plan", "Plan"],
  ["reservations", "Reservations"], ["qos", "QOS"], ["accounts", "Accounts"], ["reports", "Reports"],
  ["simulator", "Simulator"], ["cluster", "Cluster"]] as const;
/** A map and no object: an address may have any word, `constructor` too. */
const LISTS: ReadonlyMap<string, () => JSX.Element> = new Map([
  ["plan", Plan], ["reservations", Reservations], ["qos", QosPage], ["accounts", Accounts], ["reports", Reports],
  ["simulator", Simulator], ["sessions", Sessions], ["past", PastJobs], ["policy", PolicyPage],
]);
/** Pages that belong to another one's place in the menu. */
const PLACES: ReadonlyMap<string, string> = new Map([["past", "jobs"], ["policy", "accounts"]]);
const RETRY_MS = 2000;

export function App(): JSX.Element {
  const me = useStore(session);
  const [isAway, setAway] = useState(false);
  useEffect(() => {
    let timer = 0;
    const look = (): void => {
      findSession().then(() => setAway(false), () => {
        setAway(true);
        timer = window.setTimeout(look, RETRY_MS);
      });
    };
    look();
    return () => clearTimeout(timer);
  }, []);
  if (me === undefined) return <main class="login"><p class="faint" role="status">{isAway ? "The daemon does not answer; trying again …" : "Loading …"}</p></main>;
  return me === null ? <Login /> : <Shell user={me.user} cluster={me.cluster} />;
}

function Shell({ user, cluster }: { user: string; cluster: string }): JSX.Element {
  const { path } = useStore(route);
  const main = useRef<HTMLElement>(null);
  const where = PLACES.get(path[0] ?? "") ?? path[0] ?? "";
  useEffect(startLive, []);
  const address = path.join("/");
  useEffect(() => {
    const title = [path[1] ?? PAGES.find((one) => one[0] === where)?.[1] ?? "", cluster, "Penstock"].filter(Boolean).join(" · ");
    document.title = title;
    main.current?.scrollTo(0, 0);
    document.querySelector("nav [aria-current=page]")?.scrollIntoView({ block: "nearest", inline: "center" }); // the menu of a narrow screen
    if (document.activeElement !== document.body && !main.current?.contains(document.activeElement)) main.current?.focus();
  }, [address, cluster]);
  return (
    <div class="shell">
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); main.current?.focus(); }}>Skip to the content</a>
      <header class="top">
        <a class="brand" href={link([])}><img src="/icon.svg" alt="" width="26" height="26" /> <span>Penstock</span></a>
        <nav aria-label="Pages">
          {PAGES.map(([name, title]) => (
            <a key={name} href={link(name ? [name] : [])} aria-current={where === name ? "page" : undefined}>{title}</a>
          ))}
        </nav>
        <span class="grow" />
        <Connection />
        <span class="who" title={`${user} on cluster ${cluster}`}><b>{user}</b><span class="faint">{cluster}</span></span>
        <Theme />
        <button type="button" onClick={() => void logout()}>Log out</button>
      </header>
      <Banner />
      <main id="main" ref={main} tabIndex={-1}><Page path={path} /></main>
    </div>
  );
}

function Page({ path }: { path: readonly string[] }): JSX.Element {
  const [name = "", id] = path;
  if (name === "") return <Overview />;
  if (name === "jobs") return id ? <Job key={id} id={id} /> : <Jobs />;
  if (name === "submit") return <Submit />;
  if (name === "nodes") return id ? <NodePage key={id} name={id} /> : <Nodes />;
  if (name === "cluster") return <ClusterPage part={id ?? ""} />;
  const Other = LISTS.get(name);
  if (Other) return <Other />;
  return <><h1>Nothing here</h1><p>This address has no page. <a href={link([])}>To the overview</a></p></>;
}

function Connection(): JSX.Element {
  const state = useStore(connection);
  const text = { live: "Live", polling: "Every 3 s", lost: "Lost" }[state];
  const title = { live: "Changes are shown when they happen", polling: "The page asks every few seconds", lost: "The daemon does not answer" }[state];
  return <span class={`conn ${state}`} title={title}><i aria-hidden="true" /> <span>{text}</span></span>;
}

function Banner(): JSX.Element {
  const state = useStore(connection);
  return (
    <div aria-live="assertive">
      {state === "lost" && (
        <p class="banner">The connection is lost. What you see is the last known state; it continues by itself when the daemon answers again.</p>
      )}
    </div>
  );
}

const THEMES = ["system", "light", "dark"] as const;
type Theme = (typeof THEMES)[number];
const COOKIE = "penstock_theme";

function savedTheme(): Theme {
  const found = new RegExp(`(?:^|; )${COOKIE}=(light|dark)`).exec(document.cookie)?.[1];
  return found === "light" || found === "dark" ? found : "system";
}

export function applyTheme(theme: Theme): void {
  if (theme === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme;
  themeChanges.set(themeChanges.value + 1);
}

export function startTheme(): void {
  applyTheme(savedTheme());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => applyTheme(savedTheme()));
}

function Theme(): JSX.Element {
  const [theme, setTheme] = useState(savedTheme());
  const next = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length] ?? "system";
  const turn = (): void => {
    document.cookie = `${COOKIE}=${next}; path=/; SameSite=Strict; max-age=${next === "system" ? 0 : 31536000}`;
    applyTheme(next);
    setTheme(next);
  };
  const sign = { system: "◐", light: "☀", dark: "☾" }[theme];
  return <button type="button" class="icon" onClick={turn} title={`Colours: ${theme}`} aria-label={`Colours: ${theme}; change to ${next}`}><span aria-hidden="true">{sign}</span></button>;
}
