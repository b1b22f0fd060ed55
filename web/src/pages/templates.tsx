import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { OWN } from "../api/client";
import { useAnswer } from "../api/live";
import type { TemplatesAnswer } from "../api/types";
import { keepTemplate, OWN_MAX, ownTemplates, removeTemplate } from "../lib/templates";
import { Card, Dialog } from "../parts/bits";

/** Scripts that a job may begin with: the site's, and the user's own, which stay in this browser. */

const EVERY_MS = 30_000;

export function Templates({ user, script, onChoose }: { user: string; script: string; onChoose: (script: string) => void }): JSX.Element {
  const site = useAnswer<TemplatesAnswer>(`${OWN}/templates`, EVERY_MS);
  const [mine, setMine] = useState(() => ownTemplates(user));
  const [isNaming, setNaming] = useState(false);
  const rows = site.data?.templates ?? [];
  return (
    <Card title="Templates" more={<button type="button" onClick={() => setNaming(true)}>Keep this script</button>}>
      {rows.length > 0 && (
        <ul class="list" aria-label="Templates of the site">
          {rows.map((one) => (
            <li key={one.name}>
              <span class="template"><b>{one.title}</b> {one.description && <span class="faint small">{one.description}</span>}</span>
              <button type="button" aria-label={`Use ${one.title}`} onClick={() => onChoose(one.script)}>Use</button>
            </li>
          ))}
        </ul>
      )}
      {mine.length > 0 && (
        <>
          {rows.length > 0 && <h3>My own, in this browser</h3>}
          <ul class="list" aria-label="My templates">
            {mine.map((one) => (
              <li key={one.title}>
                <span class="template"><b>{one.title}</b></span>
                <span class="buttons">
                  <button type="button" aria-label={`Remove ${one.title}`} onClick={() => setMine(removeTemplate(user, one.title))}>Remove</button>
                  <button type="button" aria-label={`Use ${one.title}`} onClick={() => onChoose(one.script)}>Use</button>
                </span>
              </li>
            ))}
          </ul>
        </>
      )}
      {!rows.length && !mine.length && <p class="empty">There are none yet. A script that you keep stays in this browser.</p>}
      {isNaming && (
        <Dialog
          title="Keep this script as a template" confirm="Keep" input={{ label: "Title", value: "", isRequired: true }} onClose={() => setNaming(false)}
          onConfirm={(title) => {
            setMine(keepTemplate(user, { title, script }));
            return Promise.resolve();
          }}
        >
          <p class="faint">{`It stays in this browser, at most ${OWN_MAX}; one with the same title is replaced.`}</p>
        </Dialog>
      )}
    </Card>
  );
}
