'use strict';
// The files of a small application of Next.js: a page by `revalidate`, pages by their tags, and a call that revalidates.

const ITEM = `
  import { unstable_cache } from 'next/cache';
  export const revalidate = 3600;
  export const generateStaticParams = () => [];
  export default async function Page({ params }) {
    const { id } = await params;
    const make = unstable_cache(async () => \`\${process.pid}.\${Math.random()}\`, [id], { tags: [\`item-\${id}\`] });
    return <p id="made">{await make()}</p>;
  }
`;

module.exports = {
  'app/layout.js': 'export default ({ children }) => <html><body>{children}</body></html>;',
  'app/page.js': 'export default () => <p>home</p>;',
  'app/item/[id]/page.js': ITEM,
  'app/revalidate/route.js': `
    import { revalidatePath, revalidateTag } from 'next/cache';
    export async function POST(request) {
      const { path, tag, profile } = await request.json();
      if (path) revalidatePath(path);
      else revalidateTag(tag, profile);
      return Response.json(process.pid);
    }
  `,
  'next.config.js': "module.exports = { cacheHandler: require.resolve('tslab/next'), cacheMaxMemorySize: 0 };",
};
