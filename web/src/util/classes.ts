import clsx, { type ClassValue } from 'clsx'

/** Class names, joined. */
export const classes = (...values: ClassValue[]) => clsx(values)
