/** Names of tools and sessions, as the person sees them. */

/** A name that a model made up: without what could break out of its line, or turn it around. */
export function shown(name: string, maxLength = 80): string {
  return name.replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, '').slice(0, maxLength);
}

const MAX_LABEL = 24;

/** A session's name, so short that what there is to say of it finds room beside it. */
export function label(sessionId: string): string {
  const name = shown(sessionId);
  return name.length > MAX_LABEL ? `${name.slice(0, MAX_LABEL - 1)}…` : name;
}

/** The number first: a name can be long, and a narrow tree cuts off the end. */
export function times(tool: string | undefined, count: number): string {
  return `${count}× ${shown(tool ?? 'one call')}`;
}
