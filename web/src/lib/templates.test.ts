import { expect, test } from "vitest";

import { keepTemplate, OWN_MAX, ownTemplates, removeTemplate } from "./templates";

function storage(): Storage {
  const held = new Map<string, string>();
  return { getItem: (key: string) => held.get(key) ?? null, setItem: (key: string, value: string) => void held.set(key, value) } as unknown as Storage;
}

test("templates are kept by title, each user's by themselves", () => {
  const store = storage();
  keepTemplate("ann", { title: "b", script: "1" }, store);
  keepTemplate("ann", { title: "a", script: "2" }, store);
  expect(keepTemplate("ann", { title: "b", script: "3" }, store)).toEqual([{ title: "a", script: "2" }, { title: "b", script: "3" }]);
  expect(ownTemplates("bob", store)).toEqual([]);
  expect(removeTemplate("ann", "a", store)).toEqual([{ title: "b", script: "3" }]);
});

test("what is too long, too much or no template is refused or left out", () => {
  const store = storage();
  expect(() => keepTemplate("ann", { title: "x", script: "y".repeat(65_537) }, store)).toThrow("too long");
  for (let number = 0; number < OWN_MAX; number++) keepTemplate("ann", { title: `t${number}`, script: "" }, store);
  expect(() => keepTemplate("ann", { title: "x", script: "" }, store)).toThrow("remove one");
  expect(keepTemplate("ann", { title: "t1", script: "new" }, store)).toHaveLength(OWN_MAX);
  for (const text of ["{", "7", '[1, null, {"title": 3}]']) {
    store.setItem("penstock.templates.eve", text);
    expect(ownTemplates("eve", store)).toEqual([]);
  }
});
