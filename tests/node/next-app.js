'use strict';
// The files of two small applications of Next.js: pages by `revalidate` and by their tags, and functions with 'use cache';
// and a call that revalidates.

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

const COMMON = {
  'app/layout.js': 'export default ({ children }) => <html><body>{children}</body></html>;',
  'app/page.js': 'export default () => <p>home</p>;',
  'app/revalidate/route.js': `
    import { revalidatePath, revalidateTag } from 'next/cache';
    export async function POST(request) {
      const { path, tag, profile } = await request.json();
      if (path) revalidatePath(path);
      else revalidateTag(tag, profile);
      return Response.json(process.pid);
    }
  `,
};

const USE_CACHE = `
  import { cacheLife, cacheTag } from 'next/cache';
  async function make(id) {
    'use cache';
    cacheTag(\`item-\${id}\`);
    cacheLife({ stale: 300, revalidate: 3600, expire: 86400 });
    return \`\${process.pid}.\${Math.random()}\`;
  }
  async function makeRemote(id) {
    'use cache: remote';
    cacheTag(\`item-\${id}\`);
    return \`\${process.pid}.\${Math.random()}\`;
  }
  export async function GET(request, { params }) {
    const { id } = await params;
    return new Response(\`<p id="made">\${await make(id)} \${await makeRemote(id)}</p>\`);
  }
`;

module.exports = {
  PAGES: {
    ...COMMON,
    'app/item/[id]/page.js': ITEM,
    'next.config.js': "module.exports = { cacheHandler: require.resolve('tslab/next'), cacheMaxMemorySize: 0 };",
  },
  FUNCTIONS: {
    ...COMMON,
    'app/item/[id]/route.js': USE_CACHE,
    'next.config.js': `
      const handler = require.resolve('tslab/next-use-cache');
      module.exports = { cacheComponents: true, cacheHandlers: { default: handler, remote: handler } };
    `,
  },
};
