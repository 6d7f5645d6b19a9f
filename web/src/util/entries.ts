/** `Object.entries` with the names of the record instead of `string`. Only for records that have no other fields. */
export function entriesOf<Name extends string, Value>(record: Readonly<Record<Name, Value>>): [Name, Value][] {
  return Object.entries(record) as [Name, Value][]
}
