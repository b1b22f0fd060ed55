import type { BudgetInfo } from "../api/types";

/** A budget of which so much is used or reserved is near its end. */
const LOW = 0.9;

/** The part of a budget that is used, or reserved for running jobs. */
export function budgetShare(one: BudgetInfo): number {
  const amount = Number(one.amount);
  return amount > 0 ? (one.used + one.reserved) / amount : 1;
}

/** Whether it will soon keep jobs from starting; one that has no effect does not. */
export function isBudgetLow(one: BudgetInfo): boolean {
  return one.problem === "" && budgetShare(one) >= LOW;
}
