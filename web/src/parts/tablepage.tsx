import type { ComponentChildren, JSX } from "preact";

import type { ApiError } from "../api/client";
import { route } from "../lib/route";
import { useStore } from "../lib/store";
import { Pending } from "./bits";
import type { Column } from "./grid";
import { Table } from "./table";

/** A page that is one table. `rows` undefined: they are not there yet. */
export function TablePage<T>(props: {
  title: string;
  rows: readonly T[] | undefined;
  error: ApiError | null;
  columns: readonly Column<T>[];
  order: string;
  rowKey: (row: T) => string;
  open?: (row: T) => string;
  empty: ComponentChildren;
  tools?: ComponentChildren;
  children?: ComponentChildren;
}): JSX.Element {
  const { query } = useStore(route);
  const { title, rows, error, columns, order, rowKey, open, tools, empty } = props;
  return (
    <>
      <h1>{title}</h1>
      {props.children}
      {rows ? (
        <Table
          label={title} rows={rows} columns={columns} query={query} order={order} rowKey={rowKey} {...(open ? { open } : {})} tools={tools}
          empty={query.get("q") ? "No row passes this filter." : empty}
        />
      ) : <Pending error={error} what={title} />}
    </>
  );
}
